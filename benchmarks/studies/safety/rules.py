"""The rules of safe trials that are compared, and what they promise on each problem."""

from typing import Any

from kinband.policies import Conservative, Floor, SwitchingCost

PLAIN = "no rules"
ALPHA, DELTA = 0.05, 0.05
PROBLEMS = {"synthetic": 0.1, "city": 0.05}
"""The problems, and the drop that their floor and half of which their switching cost allows for."""


def rules_of(problem: str, *, least: float) -> dict[str, Any]:
    """Return the rules that are compared, by name.

    Example:
        >>> list(rules_of("city", least=0.0))[:2]
        ['no rules', 'budget']
    """
    drop = PROBLEMS[problem]
    return {
        PLAIN: None,
        "budget": Conservative(ALPHA, least=least),
        "budget, δ = 0.05": Conservative(ALPHA, least=least, delta=DELTA),
        "budget, δ = 0.05, of what is expected": Conservative(ALPHA, least=least, delta=DELTA, of="expected"),
        "budget a station": Conservative(ALPHA, least=least, per_station=True),
        "floor": Floor(drop),
        "floor, δ = 0.05": Floor(drop, delta=DELTA),
        "floor, mean": Floor(drop, against="mean"),
        "cost": SwitchingCost(drop / 2),
        "all three": [Conservative(ALPHA, least=least), Floor(drop), SwitchingCost(drop / 2)],
    }
