"""What came of something that was tried, as its file has it."""

from dataclasses import dataclass, field


@dataclass
class Result:
    """What came of it.

    Attributes:
        name: Of what was tried.
        fault: Its fault.
        store: Its store.
        counts: How often what was done.
        acknowledged: Operations that were acknowledged.
        events: Events on record.
        changes: Changes that went out.
        replayed: Decisions that were decided again.
        seconds: How long it took.
        anomalies: What ought not to be.
        left_out: Why it could not be tried, if it could not.
    """

    name: str
    fault: str
    store: str
    counts: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    events: int = 0
    changes: int = 0
    replayed: int = 0
    seconds: float = 0.0
    anomalies: list[dict[str, str]] = field(default_factory=list)
    left_out: str = ""
