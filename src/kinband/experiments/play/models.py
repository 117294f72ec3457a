"""Models on disk: what a learner of an experiment is built from, so that its runs need not learn it again."""

import json
import warnings
from pathlib import Path

import numpy as np

from kinband.errors import SavedStateError
from kinband.experiments.play.cases import Case
from kinband.kernels import RBF, kernel_from_dict
from kinband.model import Model, Search, learn_model
from kinband.records import Samples
from kinband.similarity import Embedding, ProjectionWarning, TaskMatrix
from kinband.similarity.joint import PULL


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
