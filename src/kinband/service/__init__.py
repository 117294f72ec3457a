"""The service: kinband beside a network manager.

`ledger` is its memory: every event in a database, from which everything else can be rebuilt.
"""
