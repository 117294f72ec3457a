"""State columns that are the reward in other words.

Numeric columns that nobody mapped become state. One that was measured in the same slot as the reward, such as the
throughput that the reward is made of, is then taken for something known beforehand: all other columns seem to matter
little, knobs among them, and whatever is concluded is surely wrong. A correlation that close is no proof, so that it is
said and nothing is left out.
"""

import numpy as np

from kinband.trace.table import Trace

CLOSE = 0.99
"""Correlation with the reward, up or down, above which a column is suspected."""

_FEW = 20  # rows below which a correlation says little
_ROUNDING = 1e-12


def reward_in_state(trace: Trace) -> list[str]:
    """Return a sentence for every state column that is all but the reward itself.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a"] * 30, "load": rng.random(30), "tilt": [2, 4, 6] * 10, "reward": rng.random(30)}
        >>> log["thr_mbps"] = 5 + 10 * log["reward"]
        >>> for sentence in reward_in_state(Trace.from_frame(log, {"configuration": ["tilt"]})):
        ...     print(sentence)
        state column 'thr_mbps' is all but the reward (correlation 1.000 over 30 rows): leave it out of the state
        (ignore) if it was measured in the same slot, since it is then not known when deciding
    """
    r = trace.reward
    if len(r) < _FEW or np.ptp(r) <= _ROUNDING * np.abs(r).max():
        return []
    found = []
    for name, s in zip(trace.state_names, trace.state.T, strict=True):
        if np.ptp(s) <= _ROUNDING * np.abs(s).max():
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # numbers too large to be squared are refused later, by name
            correlation = float(np.corrcoef(s, r)[0, 1])
        if abs(correlation) > CLOSE:
            found.append(
                f"state column {name!r} is all but the reward (correlation {correlation:.3f} over {len(r):,} rows): "
                "leave it out of the state (ignore) if it was measured in the same slot, since it is then not known "
                "when deciding"
            )
    return found
