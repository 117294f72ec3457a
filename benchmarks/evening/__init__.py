"""What an evening's plan is worth: `kinband recommend` judged on networks whose truth is known.

`worlds.py` draws networks and their logs, `logs.py` names those that are judged and writes their files, `scoring.py`
runs the command and counts, and `python -m benchmarks.evening` prints the table.
"""
