"""One learner on one problem with one seed, from its description to its curve on disk.

`cases` says what is run, in plain values that give files their names, and learns what a learner believes. `problems`
makes what a case is played on: bandits, traces, parts of a user's own log, tables, and adversaries that punish sharing.
`referee` plays one run and counts its regret. `runs` puts these together: cases in, curves out, each run kept in a file
of its own.
"""

from kinband.experiments.play.cases import Mode
from kinband.experiments.play.referee import Referee, Run, play

__all__ = ["Mode", "Referee", "Run", "play"]
