"""`python -m inferrun.cli` is the command `inferrun`."""

import sys

from inferrun.cli import main

if __name__ == "__main__":
    sys.exit(main())
