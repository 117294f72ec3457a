"""Why one configuration was chosen and no other: the best there was, a trial, or what a rule of safety left.

A score is what the policy maximised, less the cost of switching for all but what runs; that is how decisions keep it.
"""

from dataclasses import dataclass

from kinband.controller.asking import ALTERNATIVES
from kinband.controller.explanation.words import configuration_of, configuration_text
from kinband.controller.settings import Settings
from kinband.packed import Alternative
from kinband.policies.safety import BUDGET, FLOOR
from kinband.records import Decision

EXPLOITATION, TRIAL, HELD_BACK, UNSCORED = "exploitation", "trial", "held back", "unscored"
"""What a decision was."""


@dataclass(frozen=True)
class Ground:
    """Why a decision was made.

    Attributes:
        kind: One of the four above.
        text: One or two sentences.
    """

    kind: str
    text: str


def ground_of(decision: Decision, settings: Settings | None = None) -> Ground:
    """Return why a decision was made; without settings, nothing is said of costs and of what was not allowed.

    Example:
        >>> others = (Alternative(1, {"tilt": 2}, 0.9, 0.1, 1.0), Alternative(0, {"tilt": 0}, 0.95, 0.01, 0.96))
        >>> ground = ground_of(Decision("d1", "a", 1, {"tilt": 2}, 0.9, 0.1, 1.0, others))
        >>> ground.kind, ground.text.split(":")[0]
        ('trial', 'It is a trial')
    """
    note = decision.memo.get("safety", {})
    if "held_back" in note:
        return Ground(HELD_BACK, held_back_text(decision))
    best = max((a for a in decision.alternatives if a.mean is not None), key=lambda a: a.mean or 0.0, default=None)
    if best is None or best.mean is None or decision.mean is None:
        return Ground(UNSCORED, "")
    cost = (
        0.0
        if settings is None or settings.safety is None or settings.safety.cost is None
        else settings.safety.cost.cost
    )
    kept_by = _rival_but_for(decision, cost) if decision.arm == note.get("running") else None
    if kept_by is not None:
        return Ground(HELD_BACK, _cost_text(decision, kept_by, cost))
    if decision.mean < best.mean:
        return Ground(TRIAL, _trial_text(decision.mean, best))
    return Ground(EXPLOITATION, _best_text(decision, settings))


def held_back_text(decision: Decision) -> str:
    """Say what a rule of safety would not let the station try."""
    note = decision.memo["safety"]
    arm = note["held_back"]
    held = configuration_of(decision, arm)
    why = "might earn too little beside what runs" if note["by"] == FLOOR else "is more than the budget bears"
    return f"A trial of {configuration_text(held, arm)} was held back: it {why}.{_instead_text(decision)}"


def _instead_text(decision: Decision) -> str:
    """Say what a station goes on with where its budget bears no trial."""
    note = decision.memo["safety"]
    if note["by"] != BUDGET:
        return ""
    if decision.arm != note["running"]:
        return " The station goes back to what was declared, which costs the budget nothing."
    sure = ", which surely earns no less than what was declared" if "x" in note else ", which is what was declared"
    return f" The station stays with what it runs{sure}."


def _rival_but_for(decision: Decision, cost: float) -> Alternative | None:
    """Return the alternative that would have won, had switching cost nothing; None where what runs would have."""
    others = [a for a in decision.alternatives if a.arm != decision.arm and a.ucb is not None]
    rival = max(others, key=lambda a: a.ucb or 0.0, default=None)
    if rival is None or rival.ucb is None or decision.ucb is None or rival.ucb + cost <= decision.ucb:
        return None
    return rival


def _cost_text(decision: Decision, rival: Alternative, cost: float) -> str:
    ahead = (rival.ucb or 0.0) + cost - (decision.ucb or 0.0)
    return (
        f"The station stays with what it runs: a change must score more than {cost:g} better, and the best of them, "
        f"{configuration_text(rival.configuration, rival.arm)}, scored {ahead:.3g} better."
    )


def _trial_text(mean: float, best: Alternative) -> str:
    return (
        f"It is a trial: another configuration ({configuration_text(best.configuration, best.arm)}) is expected to "
        f"earn {(best.mean or 0.0) - mean:.3f} more, but too little is known about this one to rule it out."
    )


def _best_text(decision: Decision, settings: Settings | None) -> str:
    """Say that nothing is expected to earn more, and among how many that was asked."""
    scored = len(decision.alternatives)
    if scored >= ALTERNATIVES:
        return f"None of the {ALTERNATIVES} configurations that scored best is expected to earn more."
    every = scored if settings is None or settings.features is not None else len(settings.encoder.space)
    if scored == every:
        return "No other configuration is expected to earn more."
    if scored == 1:
        return f"Of {every:,} configurations it is the only one that could be chosen."
    return f"None of the {scored:,} of {every:,} configurations that could be chosen is expected to earn more."
