"""`kinband serve --demo`, the only place where service and simulator meet.

`network` is simulated, `clock` lets its hours pass in seconds, `manager` asks and reports for it through one of the
`desks`; `start` says how it all begins, and `serving` runs it.
"""
