"""Whether the simulated city behaves like a network: `python -m benchmarks.city`.

`check` asks, and `figures` draws the answers.
"""
