"""Learners on environments.

`cases` says what is run, `problems` on what, `models` with which beliefs, `play` how; `pool` spreads runs over
processes and `runs` reads them back; `metrics` compares, `figures` draws. `paper` declares the paper's comparisons,
`reproduce` and `regression` carry them out. `parts` prepares a log of the user's own for a comparison, `verdict` says
what came out. `demo` with `stage`, `city`, `meter` and `report` is the city that learns;
`city_check` and `city_figures` show how it behaves.
"""
