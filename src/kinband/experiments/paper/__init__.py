"""The paper's comparisons, carried out under its own protocol and under a fair one.

`comparisons` declares them beforehand, with the numbers that the paper prints; `reproduce` carries them out, and any
other of the same form, such as one on a log of the user's own; `verdict` says in words what came out. `readings` varies
what the print leaves open. `regression` is the paper's first figure. `figures` draws.
"""
