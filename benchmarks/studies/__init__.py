"""Studies: one question each about the learners, played, counted and compared in pairs on the same seeds.

- `rounds`: what does deciding all at once cost against taking turns?
- `safety`: how often is a promise broken, and what does keeping it cost?
- `newcomers`: what do the first decisions of a station that joins cost?
- `drift`: how soon is a controller back after stations changed?
- `neighbours`: what does a network gain when stations answer for more than themselves?
- `speed`: what do the defaults cost in time?

Some can be run alone (`python -m benchmarks.studies.safety`): with other sizes, all
learners, and the tables and figures of the documentation. `benchmarks.trust` holds all of them against what is
promised.
"""
