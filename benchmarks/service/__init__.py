"""How much the service adds to the controller: measured over HTTP, beside a bare handler that does one insert.

`problem` is what is asked, `hosting` runs a service or the bare handler in a process of its own, `calling` sends
requests and times them, `measuring` puts the figures together, `statistics` sums them up. `pages` does the same for the
pages of the dashboard, on a ledger with a `past`.
"""
