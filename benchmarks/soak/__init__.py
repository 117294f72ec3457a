"""The fault harness: services are killed, paused, given wrong clocks and full disks, and a checker judges.

`session` is one run of two hosts on one ledger under one kind of fault (`faults`), with `clients` at work; `history` is
what those did and heard, and what the ledger held when. `checker` proves from that alone that every promise was kept,
with `oracle` for the guard rails in true time; neither shares code with the service. `synced` keeps what a disk would
still have after a loss of power. `plan` says what is tried how often, and keeps what came of it, so that a run goes on
where it was interrupted.

Run it with `make soak`, or `make soak QUICK=1`; one kind alone: python -m benchmarks.soak --only pause
"""
