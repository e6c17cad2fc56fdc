"""What our own part of the first frame costs: CPU of ``import framefeed as ff; ff.VideoDecoder(path)[5]``.

    python -m benchmarks.first_frame [CHECKOUT ...] [--repeats 30]

Each run is a process of its own that has imported the libraries before (NumPy, PyAV, Pillow and what else one frame
loads, the standard library too). Several checkouts are measured in turns; without one, this checkout is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from framefeed.testing import ClipSpec, write_clip

ROOT = Path(__file__).resolve().parents[1]
FRAME = "import framefeed as ff; ff.VideoDecoder({0!r})[5]"
LIBRARIES = "import sys; before = set(sys.modules); {0}; print(*[name for name in sys.modules if name not in before])"
TIMED = """
import importlib, sys, time
for name in {1!r}.split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
began = time.process_time()
{0}
print(time.process_time() - began)
"""


def run(checkout: Path, code: str) -> str:
    """Run code in a fresh process with the sources of a checkout; return what it prints."""
    # Bytecode is written, as that of an installed package is.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(checkout / "src")
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def main() -> None:
    """Print the median and the quartiles of each checkout, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clip.mp4")
        write_clip(path, ClipSpec(num_frames=64, gop=64, b_frames=0))
        frame = FRAME.format(str(path))
        names = run(given.checkouts[0], LIBRARIES.format(frame)).split()
        timed = TIMED.format(frame, " ".join(name for name in names if name.split(".")[0] != "framefeed"))
        times: dict[Path, list[float]] = {checkout: [] for checkout in given.checkouts}
        for _ in range(given.repeats):
            for checkout, spent in times.items():
                spent.append(1e3 * float(run(checkout, timed)))
    for checkout, spent in times.items():
        first, median, third = statistics.quantiles(spent, n=4)
        print(f"{checkout}: {median:.0f} ms of CPU ({first:.0f} to {third:.0f})")


if __name__ == "__main__":
    main()
