"""`python -m worker`: serves the workflows and activities until SIGTERM.

Exit codes: 0 after SIGTERM, 2 for an invalid setting, 1 for any other error.
"""

import uvloop

from control.process import leave, run_program
from worker.composition import WorkerProcess

if __name__ == "__main__":
    leave(run_program(WorkerProcess.start, run=uvloop.run))
