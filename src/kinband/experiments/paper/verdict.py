"""What a comparison says: numbers for every learner, and in words whether sharing helps."""

from collections.abc import Sequence
from typing import Any

from kinband.experiments.metrics import Estimate, mean_of
from kinband.experiments.paper.comparisons import BASELINE, LABELS, OURS, final_regrets, savings
from kinband.experiments.paper.reproduce import FairProtocol
from kinband.experiments.play.runs import Curve

_OF = "of the regret of learning alone"


def standings(found: FairProtocol) -> list[dict[str, Any]]:
    """Return for every learner what it paid and what it saved, started from the log and cold, in JSON's types."""
    warm, cold = _numbers_of(found.curves), _numbers_of(found.cold)
    return [
        {"learner": name, "label": LABELS[name], "beta": found.betas[name], **warm[name], "cold": cold[name]}
        for name in warm
    ]


def in_words(found: FairProtocol) -> str:
    """Return whether sharing helps: where it does, the whole interval of what it saves lies above zero."""
    saved, cold = _savings(found.curves), _savings(found.cold)
    if not saved:
        return "There is nothing to save here: learning alone pays no regret at all."
    name, best = _best(saved)
    answer = f"Sharing makes no clear difference here: the best, {name}, {_change(best)} {_OF}."
    if best.low > 0:
        answer = f"Sharing helps here: {name} {_change(best)} {_OF}."
    elif best.high < 0:
        answer = f"Sharing hurts here: even the best, {name}, {_change(best)} {_OF}."
    if OURS in saved and saved[OURS] != best:
        answer += f" What kinband does by default {_change(saved[OURS])}."
    if not cold:
        return answer
    name, best = _best(cold)
    return f"{answer} Without the log to start from, the best is {name} and {_change(best)}."


def _change(saved: Estimate) -> str:
    """What is saved, or what it costs where nothing is."""
    if saved.value >= 0:
        return f"saves {saved:.0%}"
    return f"costs {Estimate(-saved.value, -saved.high, -saved.low):.0%}"


def _best(saved: dict[str, Estimate]) -> tuple[str, Estimate]:
    """The learner that saves most, as the table calls it, and what it saves."""
    name, most = max(saved.items(), key=lambda item: item[1].value)
    return LABELS[name].removeprefix("shared, "), most


def _savings(curves: Sequence[Curve]) -> dict[str, Estimate]:
    """What is saved, where there was a regret to save from."""
    return savings(curves) if final_regrets(curves)[BASELINE].sum() > 0 else {}


def _numbers_of(curves: Sequence[Curve]) -> dict[str, dict[str, Any]]:
    saved = _savings(curves)
    return {
        name: {"regret": _numbers(mean_of(regrets)), "saved": _numbers(saved.get(name))}
        for name, regrets in final_regrets(curves).items()
    }


def _numbers(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else {"mean": estimate.value, "interval": [estimate.low, estimate.high]}
