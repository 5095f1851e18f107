"""`python -m operator_shim`: watches the resources until SIGTERM.

Exit codes: 0 after SIGTERM, 2 for a wrong setting, 1 for anything that ended it otherwise.
"""

from inferrun.control.process import leave, run_program
from operator_shim.composition import ShimProcess
from operator_shim.settings import ShimSettings

if __name__ == "__main__":
    leave(run_program(ShimSettings.read, ShimProcess.start))
