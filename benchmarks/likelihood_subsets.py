"""What a fit loses when it looks at part of a log, or at groups of stations one by one, and the time it saves.

The log is that of the bundled trace, 20 rows of each of 105 stations, with the paper's embedding as task matrix. The
kernel, the noise and the mean are fitted to all rows together, to groups of stations, and to fewer rows; every fit
then predicts the same later rows, 10 of each station, from the same 2,100.

Run it: OPENBLAS_NUM_THREADS=1 python -m benchmarks.likelihood_subsets
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np

from kinband import Trace
from kinband.environments import split_trace
from kinband.kernels import FixedTasks
from kinband.likelihood import Fit, fit, starting_kernel, variances
from kinband.posterior import ExactPosterior
from kinband.records import Samples
from kinband.similarity import Embedding

WAYS: dict[str, dict[str, Any]] = {
    "all rows together": {},
    "groups of 500 rows": {"block_rows": 500},
    "groups of 250 rows": {"block_rows": 250},
    "groups of 100 rows": {"block_rows": 100},
    "1,000 rows together": {"max_rows": 1000},
    "500 rows together": {"max_rows": 500},
}


def samples_of(rows: int, later: int) -> tuple[Samples, Samples]:
    """Return the first rows of every station, and some later ones."""
    log, rest = split_trace(Trace.bundled(), rows_per_station=rows)
    encoder = log.encoder()
    judged = rest.samples(encoder, stations=log.stations)
    rng = np.random.default_rng(0)
    kept = np.concatenate(
        [rng.permutation(np.flatnonzero(judged.tasks == m))[:later] for m in range(len(log.stations))]
    )
    return log.samples(encoder), judged.take(np.sort(kept))


def density(found: Fit, log: Samples, judged: Samples, K_Z: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Return the mean log density of rows that were not fitted to, given all rows of the log."""
    posterior = ExactPosterior(found.kernel, K_Z, noise=found.noise, mean=found.mean)
    posterior.update(log.tasks, log.X, log.y, noise=variances(log, found.noise))
    prediction = posterior.predict(judged.tasks, judged.X)
    variance = prediction.std**2 + variances(judged, found.noise)
    return float(np.mean(-0.5 * np.log(2 * np.pi * variance) - 0.5 * (judged.y - prediction.mean) ** 2 / variance))


def main() -> None:
    """Fit in every way and print what comes of it."""
    warnings.simplefilter("ignore")
    log, judged = samples_of(20, 10)
    K_Z = Embedding().fit(log).matrix
    print(
        f"{len(log):,} rows, {len(judged):,} judged\nway                   seconds  noise    log density of later rows"
    )
    for name, options in WAYS.items():
        begun = time.process_time()
        rng = np.random.default_rng(1)
        found = fit(log, starting_kernel(log), tasks=FixedTasks(K_Z), starts=1, rng=rng, quiet=True, **options)
        seconds = time.process_time() - begun
        print(f"{name:20} {seconds:8.1f}  {found.noise:.5f}  {density(found, log, judged, K_Z):.4f}", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
