"""Stations that change, measured: how soon a controller is back to where it was, and what being prepared costs.

A third of the stations change in mid-run (`kinband.environments.drifting`): in one slot, little by little, or never.
All learners of a problem have the same kernel, noise and prior mean, learned from the log of before, and meet the same
slots:

- *plain*: nothing is done about drift;
- *forgetting*: old rewards count less (`Drift(half_life=...)`);
- *resets*: a station whose rewards leave their bounds starts anew (`Drift(reset=True)`);
- *both*;
- *restart*: an oracle that is told of the step when it happens and forgets every reward, of all stations. It keeps what
  the log taught of kernel, noise, mean and likeness;
- *from nothing*: the same, but as it comes out of the box: knowing the range of rewards, and nothing else.

Each is played twice: sharing by a task matrix that was learned from the log, and with every station learning alone.

`playing` lets them play; how soon each is back at the regret it had before the step, and what being prepared costs,
`results` says. The tables and the figure of docs/learning.md:

    python -m benchmarks.studies.drift --seeds 20
"""
