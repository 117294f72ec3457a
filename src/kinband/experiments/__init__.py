"""Learners on environments, room by room; a room imports only from rooms further down this list.

- `report`: the pages of the demonstration and of an audit; `demo`: the network that learns (`kinband demo`).
- `paper`: the paper's comparisons under both protocols (`kinband reproduce`), and a user's own (`kinband compare`).
- `play`: one learner on one problem with one seed, from its description to its curve on disk.
- `city`: where stations stand, and what is played on there; `pool`: many jobs over processes or a cluster.
- `metrics`: numbers with intervals; `canvas`: what figures are drawn on; `pages`: tables in pages.
"""
