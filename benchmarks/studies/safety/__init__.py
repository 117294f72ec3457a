"""Safe trials measured: how often a promise is broken, and what keeping it costs.

Every learner plays the same slots with the same model, learned from the same log; they differ in their rules alone, so
that regrets can be compared in pairs. The referee knows what every configuration is expected to earn in a slot, and so
what today's would have earned. It counts

- runs in which the rewards expected of what was played, counted from `least` and summed, ever fell below 1 − α of
  today's, with the exact binomial interval (Clopper and Pearson 1934), and the same for the rewards that came;
- decisions expected to earn more than `drop` less than what their station ran before, and runs with any;
- changes from one slot to the next, and the regret beyond that of the learner without rules.

`rules` are what learners differ in, `playing` lets them play, `results` counts. The tables of docs/learning.md:

    python -m benchmarks.studies.safety --seeds 50

Runs of `python -m benchmarks.trust safety`, which has the targets, are of fewer rules, are kept and use all cores.
"""
