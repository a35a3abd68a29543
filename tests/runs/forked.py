"""The workers of some small runs, forked from a process that has imported torch: that takes seconds, training less.

    python forked.py JOBS.json PROCESSES

Otherwise they meet as under torchrun, whose agent this is; tests/runs/test_command.py is under torchrun itself.
"""

import sys
from pathlib import Path

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.runs.worker import main

if __name__ == "__main__":
    settings = LaunchConfig(
        1, 1, int(sys.argv[2]), run_id="runs", rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork",
        monitor_interval=0.1, max_restarts=0,
    )  # fmt: skip
    elastic_launch(settings, main)(Path(sys.argv[1]))
