"""Does the judgement of changes hold what it says: coverage, false roll-backs, how soon a loss is found.

Run it with: python -m benchmarks.impact
"""
