"""How much the service adds to the controller: measured over HTTP, beside a bare handler that does one insert.

`problem` is what is asked, `hosting` runs a service or the bare handler in a process of its own, `calling` sends
requests, times them and sums them up, `measuring` puts the figures together. `pages` does the same for the pages of the
dashboard, on a ledger with a `past`.
"""
