"""`python -m inferrun.cli` runs the command `inferrun`."""

import sys

from inferrun.cli import main

if __name__ == "__main__":
    sys.exit(main())
