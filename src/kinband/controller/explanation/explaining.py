"""Why a decision was made: one paragraph of words and the same as data.

Scores are those that were stored when asking. Whose evidence they rested on is worked out anew from the journal, by an
exact posterior of the rows that were known *then*: what has been told since changes nothing about a decision of the
past. That costs the cube of the rows that bear on it, a second for some 4,000, so that beyond `MOST_ROWS` it is left
out, and said to be.
"""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.explanation.choosing import TRIAL, ground_of
from kinband.controller.explanation.comparison import Comparison, compare
from kinband.controller.explanation.evidence import Evidence, related, task_matrix_of, weigh
from kinband.controller.explanation.hindsight import told_rows_of
from kinband.controller.explanation.words import (
    against_text,
    approximate_text,
    choice_text,
    configuration_of,
    evidence_text,
    kpis_text,
    outcome_text,
    ran_text,
)
from kinband.controller.journal import Asked, Journal
from kinband.controller.settings import Settings
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.packed import Alternative
from kinband.records import Decision
from kinband.similarity.matrix import sharing_text

MOST_ROWS = 5000
"""Rows up to which evidence is weighed unless told otherwise; the matrix then takes 200 MB for two seconds."""


@dataclass(frozen=True)
class Explanation:
    """A reason in words, and the numbers it is made of; all of it as of the decision.

    Attributes:
        id: The decision.
        text: One paragraph.
        decision: The decision with its scored alternatives, as stored when asking.
        explores: Whether a configuration with a larger expected reward was passed over to learn; None if unscored.
        runner_up: The best-scored alternative that was not chosen.
        reward: What the decision earned, None while it is awaited.
        kind: "exploitation", "trial", "held back" (a rule of safety stepped in) or "unscored".
        against: The choice against the runner-up; None where there are no scores.
        evidence: Whose rewards the estimate rests on, and how much was borrowed; None where it was left out.
        left_out: Why the evidence was left out, else empty.
        ran: Arm of what the station ran instead; None where nobody said that it ran something else.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), stations=["a"], seed=1)
        >>> print(controller.explain(controller.ask("a").id).text)
        a should run tilt=...: expected reward 0.000, give or take 1.000 ...
    """

    id: str
    text: str
    decision: Decision
    explores: bool | None
    runner_up: Alternative | None
    reward: float | None
    kind: str = "unscored"
    against: Comparison | None = None
    evidence: Evidence | None = None
    left_out: str = ""
    ran: int | None = None

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        decision = self.decision
        considered = [
            _plain(alternative, chosen=alternative.arm == decision.arm) for alternative in decision.alternatives
        ]
        return {
            "id": self.id,
            "station": decision.station,
            "text": self.text,
            "kind": self.kind,
            "arm": decision.arm,
            "configuration": None if decision.configuration is None else dict(decision.configuration),
            "mean": decision.mean,
            "width": decision.width,
            "known": decision.known,
            "reward": self.reward,
            "ran": None if self.ran is None else {"arm": self.ran, "configuration": _named(decision, self.ran)},
            "considered": considered,
            "runner_up": None if self.runner_up is None else _plain(self.runner_up, chosen=False),
            "against": None if self.against is None else self.against.to_dict(),
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
            "left_out": self.left_out,
            "safety": dict(decision.memo.get("safety", {})),
            "kpis": dict(decision.memo.get("kpis", {})),
        }


def explain(
    asked: Asked,
    *,
    reward: float | None,
    settings: Settings | None = None,
    journal: Journal | None = None,
    most_rows: int = MOST_ROWS,
    ran: int | None = None,
) -> Explanation:
    """Return the explanation of a recorded decision.

    Args:
        asked: The decision with its context.
        reward: What it earned, if that is known.
        settings: Of the controller that made it; without them, nothing is said of evidence.
        journal: Likewise; the rows known then come from it.
        most_rows: Up to how many rows evidence is weighed.
        ran: Arm of what the station ran, where the journal does not say.
    """
    if isinstance(most_rows, bool) or not isinstance(most_rows, int | np.integer) or most_rows < 0:
        raise BadInputError(f"most_rows must be a whole number of rows from 0 on, got {most_rows!r:.60}")
    decision = asked.decision
    runner_up = next((a for a in decision.alternatives if a.arm != decision.arm), None)
    ground = ground_of(decision, settings)
    explores = None if decision.mean is None else ground.kind == TRIAL
    evidence, C, left_out = _weighed(asked, runner_up, settings=settings, journal=journal, most_rows=most_rows)
    against = _compared(decision, runner_up, C=C, settings=settings)
    learned = None if journal is None else journal.told.get(decision.id)
    ran = _instead(decision, journal) if ran in (None, decision.arm) else ran
    sentences = [
        choice_text(decision),
        ground.text,
        kpis_text(decision, {} if settings is None else {kpi.name: kpi.floor.text() for kpi in settings.kpis}),
        against_text(runner_up, against),
        left_out if evidence is None else evidence_text(evidence),
        "" if evidence is None else approximate_text(decision, evidence),
        _sharing(evidence, settings),
        ran_text(decision, ran, told=reward is not None),
        outcome_text(reward, None if learned is None else learned.reward),
    ]
    text = " ".join(sentence for sentence in sentences if sentence)
    kind = ground.kind
    return Explanation(decision.id, text, decision, explores, runner_up, reward, kind, against, evidence, left_out, ran)


def _sharing(evidence: Evidence | None, settings: Settings | None) -> str:
    """Say how much stations share, where a model says so and there is somebody to share with."""
    if evidence is None or settings is None or not evidence.other_rows or settings.policy not in ("ucb", "thompson"):
        return ""
    return sharing_text(settings.notes.get("details", {}))


def _instead(decision: Decision, journal: Journal | None) -> int | None:
    """The arm that a station ran in the place of what was decided, None where nobody said so."""
    if journal is None or decision.id not in journal.asked:
        return None
    ran = journal.ran(decision.id)
    return None if ran == decision.arm else ran


def _weighed(
    asked: Asked,
    runner_up: Alternative | None,
    *,
    settings: Settings | None,
    journal: Journal | None,
    most_rows: int,
) -> tuple[Evidence | None, FloatArray | None, str]:
    """Return the evidence, the covariance with the runner-up, and why one of them is missing."""
    if settings is None or journal is None or asked.decision.mean is None:
        return None, None, ""
    K_Z = task_matrix_of(settings)
    if K_Z is None:
        return None, None, "Whose evidence it rests on is not known for this policy."
    count = _bearing(asked, settings, journal, K_Z)
    if count > most_rows:
        return None, None, _too_many(count, most_rows)
    X, rows = _contexts(asked, runner_up, settings), told_rows_of(settings, journal, known=asked.decision.known)
    try:
        evidence, C = weigh(rows, asked.task, X=X, settings=settings, K_Z=K_Z)
    except NotPositiveDefiniteError:
        return None, None, "Whose evidence it rests on cannot be worked out: rewards repeat with too little noise."
    return evidence, C if len(X) > 1 else None, ""


def _too_many(count: int, most_rows: int) -> str:
    return (
        f"Whose evidence it rests on is left out: {count:,} rewards bear on it, and weighing more than {most_rows:,} "
        "takes long (most_rows allows it)."
    )


def _bearing(asked: Asked, settings: Settings, journal: Journal, K_Z: FloatArray) -> int:
    """How many of the rewards known to a decision are of stations that share with its own."""
    start = [] if settings.start is None else settings.start.tasks.tolist()
    known = max(asked.decision.known - len(start), 0)
    kin = set(related(K_Z, asked.task).tolist())
    if len(kin) == len(K_Z) and not journal.joined:  # all share with all: no need to look at each
        return len(start) + min(known, len(journal.told))
    decisions = map(journal.asked.__getitem__, islice(journal.told, known))
    return sum(task in kin for task in start) + sum([one.task in kin for one in decisions])


def _contexts(asked: Asked, runner_up: Alternative | None, settings: Settings) -> FloatArray:
    """The context that was chosen and, where states tell it, that of the runner-up, (1 or 2, d)."""
    if runner_up is None or settings.features is not None:
        return asked.x[None]
    return np.stack([asked.x, settings.encoder.contexts(asked.state or {})[runner_up.arm]])


def _compared(
    decision: Decision, runner_up: Alternative | None, *, C: FloatArray | None, settings: Settings | None
) -> Comparison | None:
    if settings is None:
        return compare(decision, runner_up, C=None, beta=None, noise=1.0)
    beta = None
    aware = decision.round is not None and settings.options.get("rounds") == "aware"  # widths that others' picks leave
    if settings.policy == "ucb" and settings.features is None and not aware:
        arms = len(settings.encoder.space)
        beta = settings.exploration.beta(known=decision.known, arms=arms, noise=settings.noise)
    found = compare(decision, runner_up, C=C, beta=beta, noise=settings.noise)
    if found is not None and settings.policy == "thompson":  # a draw decided, which means nothing a second time
        return replace(found, needed_mean=None)
    return _in_range(found, settings)


def _in_range(found: Comparison | None, settings: Settings) -> Comparison | None:
    """Return a comparison without a reward that cannot come."""
    span = settings.reward_range
    if found is None or found.needed_reward is None or span is None or found.needed_reward <= span[1]:
        return found
    return replace(found, needed_reward=None)


def _named(decision: Decision, arm: int) -> dict[str, Any] | None:
    named = configuration_of(decision, arm)
    return None if named is None else dict(named)


def _plain(alternative: Alternative, *, chosen: bool) -> dict[str, Any]:
    return {
        "arm": alternative.arm,
        "configuration": None if alternative.configuration is None else dict(alternative.configuration),
        "mean": alternative.mean,
        "width": alternative.width,
        "score": alternative.ucb,
        "chosen": chosen,
    }
