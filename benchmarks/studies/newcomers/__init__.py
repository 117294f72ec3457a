"""Stations that join a running controller, measured: what the first decisions of a newcomer cost.

Some stations of the bundled city are left out. The others learn from their log and play a few rounds; then those left
out join, with what the city's layout says of them, and make their first decisions, all in the same slots. They start

- *described*: from the stations that their descriptors resemble (`kinband.similarity.newcomers`);
- *on average*: from the network's average;
- *alone*: with the same kernel, noise and prior mean, from nothing but their own rewards.

Regret is counted over newcomers alone and compared in pairs of runs on the same draw. Beside it stands how well the
descriptors predict rows of the learned task matrix that were held out.

`scene` prepares a draw, `playing` lets newcomers join it in every way, `results` compares. The table of
docs/learning.md:

    python -m benchmarks.studies.newcomers --runs 20

`python -m benchmarks.trust newcomers`, which has the target, plays the same runs, keeps them and uses all cores.
"""
