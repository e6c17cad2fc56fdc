"""Programs that run on several ranks at once, as torchrun starts them, and report one JSON document a rank.

python -m tests.adapters.ranks MODULE FOLDER
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lengths import IS_ALL
from tests.makers import catalog
from tests.programs import running

CHECKOUT = Path(__file__).resolve().parents[2]

SECONDS = 100
WORLD_SIZE = 2
EPOCHS = 3
NUM_ITEMS = 19
"""Items of a small data set; not a multiple of the ranks and batches."""
STEPS_OF_AN_EPOCH = 5
CHECKPOINTS = ("step=8", "step=5", "end of epoch=1", *(("end of epoch=0", "step=1") if IS_ALL else ()))
"""Those of Lightning that a run is resumed from: in the middle, at the last step, and at the end of an epoch; of the
first epoch and a later one."""


def report_of_ranks(module: str, folder: Path) -> list[Any]:
    """Call ``make_report`` of a module on each rank, with the folder."""
    options = {"cwd": CHECKOUT, "env": {**os.environ, **SETTINGS}, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "tests.adapters.ranks", module, folder]
    with running(command, stdout=subprocess.DEVNULL, **options) as program:
        _, errors = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, errors[-4000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD_SIZE)]


def main() -> None:
    """Import a module, which takes seconds, once, and fork a process for each rank: they meet at a free port."""
    module, folder = importlib.import_module(sys.argv[1]), Path(sys.argv[2])
    catalog()  # made once too, and removed by this process
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for rank in range(WORLD_SIZE):
        if not os.fork():
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}
            (folder / f"{rank}.json").write_text(json.dumps(module.make_report(folder)))
            os._exit(0)
    for _ in range(WORLD_SIZE):
        if status := os.wait()[1]:
            sys.exit(f"a rank ended with the status {status}")


SETTINGS = {
    "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)]),
    "WORLD_SIZE": str(WORLD_SIZE),
    "LOCAL_WORLD_SIZE": str(WORLD_SIZE),
    "GROUP_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "TORCHELASTIC_RUN_ID": "framefeed-tests",
    "ACCELERATE_USE_CPU": "true",
    "OMP_NUM_THREADS": "1",
    "FRAMEFEED_THREADS": "2",
}

if __name__ == "__main__":
    main()
