"""`python -m kinband` is the `kinband` command."""

import sys

from kinband.cli import main

if __name__ == "__main__":
    sys.exit(main())
