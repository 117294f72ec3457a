"""Learners on environments; a module imports only from those further down this list.

- `report`: the pages of the demonstration and of an audit; `demo`: the network that learns (`kinband demo`).
- `readings`, `paper`: the paper's experiments under both protocols (`kinband reproduce`).
- `compare`: a fair comparison of any learners on any problems, with intervals (`kinband.compare`, `kinband compare`).
- `runner`: one learner on one problem with one seed, and many of them over processes or a cluster.
- `problems`: what is played, by name or of one's own; `city`: where stations stand, and what a day there is like.
- `pages`: what results are shown on, figures and tables in pages.
"""
