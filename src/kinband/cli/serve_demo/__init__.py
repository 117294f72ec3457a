"""`kinband serve --demo`, the only place where service and simulator meet.

`network` is simulated, with a clock that lets its hours pass in seconds and a manager that asks and reports for it;
`serving` says how it all begins, and runs it.
"""
