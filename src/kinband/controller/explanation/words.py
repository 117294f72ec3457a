"""An explanation in words: short sentences that make one paragraph, each from numbers that are also given as data."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from kinband.controller.explanation.comparison import Comparison
from kinband.controller.explanation.evidence import Evidence
from kinband.packed import Alternative, Alternatives
from kinband.records import Decision

_LENDERS = 3  # how many are named
_SHARE = 0.005  # a share below half a per cent is not worth a word


def configuration_text(configuration: Mapping[str, Any] | None, arm: int) -> str:
    """Return a configuration in words.

    Example:
        >>> configuration_text({"tilt": 4, "scheduler": "pf"}, 3), configuration_text(None, 3)
        ('tilt=4, scheduler=pf', 'arm 3')
    """
    if configuration is None:
        return f"arm {arm}"
    return ", ".join(f"{knob}={value}" for knob, value in configuration.items())


def configuration_of(decision: Decision, arm: int) -> Mapping[str, Any] | None:
    """Return the configuration of any arm that a decision could have chosen; None where arms have no names.

    Example:
        >>> scored = Alternatives([(1, 0.9, 0.1, 1.0)], [{"tilt": 2}, {"tilt": 4}])
        >>> configuration_of(Decision("d1", "a", 1, {"tilt": 4}, 0.9, 0.1, 1.0, scored), 0)
        {'tilt': 2}
    """
    scored = decision.alternatives
    return scored.configuration(arm) if isinstance(scored, Alternatives) else None


def choice_text(decision: Decision) -> str:
    """Say what was chosen and what was expected of it."""
    what = configuration_text(decision.configuration, decision.arm)
    if decision.mean is None or decision.width is None:
        return f"{decision.station} should run {what}; the policy predicts nothing."
    known = "1 reward" if decision.known == 1 else f"{decision.known:,} rewards"
    return (
        f"{decision.station} should run {what}: expected reward {decision.mean:.3f}, give or take "
        f"{decision.width:.3f} (one standard deviation), with {known} known so far."
    )


def kpis_text(decision: Decision, floors: Mapping[str, str]) -> str:
    """Say what was expected of KPIs that have a floor, given in words by KPI, and how many configurations keep it.

    Example:
        >>> note = {"open": 3, "kept": True, "arms": [1], "means": {"load": [0.5]}, "widths": {"load": [0.1]}}
        >>> decision = Decision("d1", "a", 1, None, 0.9, 0.1, 1.0, memo={"kpis": note})
        >>> kpis_text(decision, {"load": "at most 0.9"})
        'load, which must be at most 0.9, is expected to be 0.500, give or take 0.100. 3 configurations keep to that.'
    """
    note = decision.memo.get("kpis")
    if note is None:
        return ""
    said = [
        f"{name}, which must be {floors.get(name, 'within limits')}, is expected to be {means[0]:.3f}, give or take "
        f"{note['widths'][name][0]:.3f}."
        for name, means in note["means"].items()
    ]
    overruled = "held_back" in decision.memo.get("safety", {})
    match note.get("fallback"):
        case str() if overruled:
            end = "No configuration is sure to keep to that, and a rule of safety had the last word."
        case "running":
            end = "No configuration is sure to keep to that: the station keeps what it runs."
        case "closest":
            end = "No configuration is sure to keep to that: this one comes closest."
        case _:
            end = f"{note['open']:,} configuration{' keeps' if note['open'] == 1 else 's keep'} to that."
            end += "" if note["kept"] else " This one does not: a rule of safety had the last word."
    return " ".join([*said, end])


def against_text(runner_up: Alternative | None, found: Comparison | None) -> str:
    """Say how far the runner-up lay behind, and what would have put it first."""
    if runner_up is None:
        return "There was no alternative."
    if found is None or runner_up.ucb is None or runner_up.width is None:
        return ""
    what = configuration_text(runner_up.configuration, runner_up.arm)
    apart = None if found.needed_mean is None else told_apart(runner_up.mean or 0.0, found.needed_mean)
    expected = f"{runner_up.mean:.3f}" if apart is None else apart[0]
    text = f"Next came {what} (expected {expected}, give or take {runner_up.width:.3f})"
    if found.deviation is not None and found.probability is not None:
        text += (
            f", a difference of {found.difference:+.3f}, give or take {found.deviation:.3f}: the choice earns more "
            f"with probability {percent(found.probability)}"
        )
    if apart is None:
        return f"{text}."
    one_more = "" if found.needed_reward is None else f", or one more reward of {found.needed_reward:.3f} in this state"
    return f"{text}. To come first it would have needed an expected reward of {apart[1]}{one_more}."


def evidence_text(found: Evidence) -> str:
    """Say whose evidence the estimate rests on, and how much of it was borrowed.

    Example:
        >>> print(evidence_text(Evidence("a", {"a": 0.9, "b": 0.1}, 8, 40, 1.0, 0.2, 0.1, 6.0, 18.75)))
        90 % of the evidence is from its own 8 rewards and 10 % borrowed, most from b (10 %). What was borrowed is worth
        18.8 rewards of its own in this state: alone the width would be 0.200, not 0.100.
    """
    if not found.shares:
        return "No reward known so far says anything about this state: the estimate is the prior."
    own = f"its own {found.own_rows:,} reward{'' if found.own_rows == 1 else 's'}"
    lent = 1.0 - found.own_share
    if lent < _SHARE:
        return f"The evidence is {own}, worth {worth_text(found.own_worth)} in this very state; none is borrowed."
    named = [f"{name} ({percent(share)})" for name, share in found.lenders.items() if share >= _SHARE][:_LENDERS]
    most = f", most from {listed(named)}" if named else f" from {len(found.lenders):,} stations"
    start = f"{percent(found.own_share)} of the evidence is from {own} and {percent(lent)} borrowed{most}."
    if not found.own_rows:
        start = f"It has no rewards of its own: all evidence is borrowed{most}."
    apart = told_apart(found.width_alone, found.width)
    alone = "" if apart is None else f": alone the width would be {apart[0]}, not {apart[1]}"
    return f"{start} What was borrowed is worth {worth_text(found.borrowed_worth)} of its own in this state{alone}."


def told_apart(one: float, other: float) -> tuple[str, str] | None:
    """Return two numbers with the decimals that tell them apart, at least three; None where four decimals do not.

    Example:
        >>> told_apart(0.2, 0.1), told_apart(0.00712, 0.00688), told_apart(0.00712, 0.00713)
        (('0.200', '0.100'), ('0.00712', '0.00688'), None)
    """
    if f"{one:.4f}" == f"{other:.4f}":
        return None
    decimals = max(3, 1 - floor(log10(abs(one - other))))
    return f"{one:.{decimals}f}", f"{other:.{decimals}f}"


def worth_text(worth: float) -> str:
    """Return a number of rewards.

    Example:
        >>> worth_text(3.42), worth_text(0.02)
        ('3.4 rewards', 'less than a tenth of one reward')
    """
    return f"{worth:,.1f} rewards" if worth >= 0.1 else "less than a tenth of one reward"


def approximate_text(decision: Decision, found: Evidence) -> str:
    """Say so where the controller's own width is another one, as a sparse posterior's may be."""
    stored = decision.width
    if stored is None or abs(stored - found.width) <= 0.02 * max(stored, found.width):
        return ""
    if "sharing" in decision.memo:
        return f"(An earlier version decided, with weights of sharing that are no longer used, and took {stored:.3f}.)"
    return f"(The evidence is weighed exactly; the controller itself, which approximates, took {stored:.3f}.)"


def outcome_text(reward: float | None, learned: float | None = None) -> str:
    """Say what came of it, and what was learned where neighbours' rewards are mixed in.

    Example:
        >>> outcome_text(0.9, 0.75)
        'It earned 0.900, and with its neighbours 0.750, which was learned.'
    """
    if reward is None:
        return ""
    if learned is None or learned == reward:
        return f"It earned {reward:.3f}."
    return f"It earned {reward:.3f}, and with its neighbours {learned:.3f}, which was learned."


def ran_text(decision: Decision, ran: int | None, *, told: bool) -> str:
    """Say what the station ran, where that is something else.

    Example:
        >>> scored = Alternatives([(1, 0.9, 0.1, 1.0)], [{"tilt": 2}, {"tilt": 4}])
        >>> ran_text(Decision("d1", "a", 1, {"tilt": 4}, 0.9, 0.1, 1.0, scored), 0, told=True)
        'The station ran tilt=2 instead; its reward was learned for that.'
    """
    if ran is None:
        return ""
    what = configuration_text(configuration_of(decision, ran), ran)
    return f"The station ran {what} instead; its reward {'was' if told else 'will be'} learned for that."


def percent(share: float) -> str:
    """Return a share in whole per cent; what is nearly all or nearly nothing does not become it.

    Example:
        >>> percent(0.634), percent(0.9999), percent(0.002)
        ('63 %', 'over 99 %', 'under 1 %')
    """
    if 0.0 < share < 0.005 or 0.995 < share < 1.0:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "none"
