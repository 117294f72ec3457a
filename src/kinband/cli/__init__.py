"""The command line: one file per command, each of which parses, calls one function and prints.

Exit codes: 0 for success, 2 with one clear sentence for input that cannot be right, 130 for Ctrl-C.
"""

from kinband.cli.app import main

__all__ = ["main"]
