"""`python -m operator_shim`: runs the shim until SIGTERM.

Exit codes: 0 after SIGTERM, 2 for an invalid setting, 1 for any other error.
"""

import uvloop

from control.process import leave, run_program
from operator_shim.composition import ShimProcess

if __name__ == "__main__":
    leave(run_program(ShimProcess.start, run=uvloop.run))
