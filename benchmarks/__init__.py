"""What measures kinband itself; not part of the package.

`python -m benchmarks.claims` (`make claims`) prints every claim about learning with its measured value. `problems` says
what is played, `runs` who plays, plays and keeps every run in a file, `findings` counts, `peers` and `newcomers` hold
the claims that need a setting of their own, `peer_learners` has other people's learners, `cost` the time it takes, and
`figure` draws the README's picture.
"""
