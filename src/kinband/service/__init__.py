"""The service: kinband beside a network manager.

`ledger` is its memory: every event in a database, from which everything else can be rebuilt. `operations` is the
controller on top of it, with guard rails, modes and people. `access` says who may do what, `api` is the interface for
programs and `client` its other end, `dashboard` the one for people; `problems` is how both say that something is wrong.
"""
