"""A run of an experiment: who plays what, and the models they learn."""

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinband.errors import SavedStateError
from kinband.kernels import RBF, kernel_from_dict
from kinband.model import Model, Search, learn_model
from kinband.records import Samples
from kinband.similarity import Embedding, ProjectionWarning, TaskMatrix
from kinband.similarity.joint import PULL

# --- What is run: one case is one learner on one environment with one seed, described by plain values ---------------
#
# A case is a frozen record of numbers and names, so that it can be sent to another process, stored beside its results
# and recognised later: its key is a digest of its values. Nothing is computed here.

Mode = Literal["parallel", "sequential"]

_DRAWN_BY_SEED = ("drawn:", "runs:", "measured:", "classes:", "smooth")  # their logs follow from the seed


@dataclass(frozen=True)
class Learner:
    """A learner as experiments name it.

    Attributes:
        name: How tables and figures call it.
        similarity: Where its task matrix comes from: one of `kinband.similarity.NAMES`.
        policy: One of `kinband.policies.POLICIES`.
        beta: Weight of the width: a number, or the name of a rule.
        sigma: Rule for σ_Z, where the similarity is "embedding".
        arm: The configuration that the policy "fixed" always plays.
        engine: Which posterior: one of `kinband.posterior.ENGINES`.
        rounds: How the policy "ucb" decides a round: "plain", or "aware" of the round's other picks.
        pulled: Whether its kernel has a prior (`kinband.similarity.joint.PULL`), as controllers have by default;
            experiments that repeat the paper's fit by marginal likelihood alone.

    Example:
        >>> Learner("embedding", "embedding").policy
        'ucb'
    """

    name: str
    similarity: str
    policy: str = "ucb"
    beta: float | str = 1.0
    sigma: str = "median"
    arm: int | None = None
    engine: str = "exact"
    rounds: str = "plain"
    pulled: bool = False

    @property
    def options(self) -> dict[str, Any] | None:
        """Further options of the policy, as the controller takes them; None where there are none."""
        options: dict[str, Any] = {}
        if self.arm is not None:
            options["arm"] = self.arm
        if self.rounds != "plain":
            options["rounds"] = self.rounds
        return options or None


@dataclass(frozen=True)
class Prior:
    """What every learner of a case believes beforehand, where it is not fitted to the log.

    Attributes:
        length_scale: Of an isotropic RBF on standardised contexts.
        noise: Variance of a reward as a share of the kernel's variance, which is 1.
        mean: Constant prior mean.

    Example:
        >>> Prior(0.5, 0.1).mean
        0.0
    """

    length_scale: float
    noise: float
    mean: float = 0.0


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        experiment: Which experiment it belongs to.
        protocol: "paper" or "fair".
        environment: "synthetic", "bundled", the path of a trace, either of these followed by whose rows answer and how
            many, such as "bundled:all:100" (`problems`), or one of `adversaries`, `tables` or `smooth`.
        learner: Who learns.
        mode: Parallel rounds (Algorithm 1) or one station at a time (Algorithm 2).
        slots: Slots to play.
        seed: Of the environment's trajectory and of the learner's draws; the same for all learners of a comparison.
        log_rows: Rows a station that models are learned from.
        prior: What is believed beforehand; None fits kernel, noise and mean to the log.
        start: Whether beliefs start from the log.

    Example:
        >>> case = Case("synthetic", "paper", "synthetic", Learner("alone", "independent"), "parallel", 10, 1)
        >>> case.key == Case(**{**vars(case), "seed": 1}).key != Case(**{**vars(case), "seed": 2}).key
        True
    """

    experiment: str
    protocol: str
    environment: str
    learner: Learner
    mode: Mode
    slots: int
    seed: int
    log_rows: int = 20
    prior: Prior | None = None
    start: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON-able values; what came later only where it is used, so that older keys stay."""
        values = asdict(self)
        later = {"arm": None, "engine": "exact", "rounds": "plain", "pulled": False}
        for name, usual in later.items():
            if values["learner"][name] == usual:
                del values["learner"][name]
        return values

    @property
    def key(self) -> str:
        """A digest of all values, to name files by."""
        return _digest(self.to_dict())

    @property
    def model_key(self) -> str:
        """A digest of what decides the learner's model: cases that share it can share the model."""
        drawn = self.environment == "synthetic" or self.environment.startswith(_DRAWN_BY_SEED)
        parts = (self.environment, self.learner.similarity, self.learner.sigma, self.log_rows, self.prior)
        values = [*map(_plain, parts), self.seed if drawn else None]
        return _digest([*values, "pulled"] if self.learner.pulled else values)


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Prior) else value


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


# --- Models on disk: what a learner of an experiment is built from, so that its runs need not learn it again --------


def model_of(case: Case, log: Samples) -> Model:
    """Return the model that a case's learner gets from a log: fitted to it, or with the case's prior."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)  # the matrix's details say how far it was moved
        return _model_of(case, log)


def _model_of(case: Case, log: Samples) -> Model:
    learner, prior = case.learner, case.prior
    rng = np.random.default_rng([case.seed, 2])
    free = Search(pull=PULL if learner.pulled else None)
    if prior is None:
        model = learn_model(log, learner.similarity, rng=rng, search=free)
        kernel, noise, mean = model.kernel, model.noise, model.mean
    else:
        kernel, noise, mean = RBF(prior.length_scale).bind(log.features), prior.noise, prior.mean
        model = learn_model(log, learner.similarity, rng=rng, kernel=kernel, noise=noise, mean=mean)
    if learner.similarity == "embedding" and learner.sigma != "median":
        estimator = Embedding(kernel, regularisation=noise, sigma=learner.sigma)  # type: ignore[arg-type]
        given = {} if prior is None else {"kernel": kernel, "noise": noise, "mean": mean}
        again = free if prior is None else None
        model = learn_model(log, estimator.fit(log), rng=rng, search=again, **given)  # type: ignore[arg-type]
    return model


def write_model(file: Path, model: Model) -> None:
    """Write a model as arrays and JSON, without pickle."""
    tasks = model.similarity
    values = {
        "kernel": model.kernel.to_dict(),
        "noise": model.noise,
        "mean": model.mean,
        "at_bound": list(model.at_bound),
        "stations": list(tasks.stations),
        "method": tasks.method,
        "details": dict(tasks.details),
    }
    with file.open("wb") as opened:
        np.savez(opened, K_Z=tasks.matrix, values=np.array(json.dumps(values)))


def read_model(file: Path) -> Model:
    """Read what `write_model` wrote."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            K_Z, values = stored["K_Z"], json.loads(str(stored["values"]))
        tasks = TaskMatrix(tuple(values["stations"]), K_Z, values["method"], values["details"])
        kernel = kernel_from_dict(values["kernel"])
        return Model(kernel, tasks, values["noise"], values["mean"], tuple(values["at_bound"]))
    except (OSError, KeyError, ValueError) as error:
        raise SavedStateError(f"{file} is not a stored model: delete it to learn it anew ({error})") from error
