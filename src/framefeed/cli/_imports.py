"""Import installed packages, each in a process of its own: one may crash, print, or take long."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, TimeoutExpired, run

from framefeed.parallel import ordered_map

_SECONDS = 120
_FAILED = 3
_PROGRAM = f"""
import importlib, os, sys
try:
    importlib.import_module(sys.argv[1])
except BaseException as error:
    from framefeed._absence import describe_error
    print("\\n" + describe_error(error), flush=True)
    os._exit({_FAILED})
os._exit(0)
"""
# Distribution -> the module that shows that it works, where that is not its name.
_MODULES = {
    "decord2": "decord",
    "nvidia-dali-cuda120": "nvidia.dali",
    "nvidia-dali-cuda130": "nvidia.dali",
    "opencv-python-headless": "cv2",
    "pillow": "PIL.Image",
    "pillow-jxl-plugin": "pillow_jxl",
    "ray": "ray.data",
    "spdl-io": "spdl.io",
    "torchcodec": "torchcodec.decoders",
}


def find_faults(names: Sequence[str]) -> dict[str, str]:
    """Import distributions; return why not, by name, of those that cannot be imported."""
    with ordered_map(_find_fault, names, max_in_flight=len(names) + 1) as faults:
        return {name: fault for name, fault in zip(names, faults, strict=True) if fault}


def _find_fault(name: str) -> str:
    words = [sys.executable, "-c", _PROGRAM, _MODULES.get(name, name.replace("-", "_"))]
    try:
        ended = run(words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, text=True, timeout=_SECONDS)
    except TimeoutExpired:
        return f"importing it took more than {_SECONDS} s"
    if ended.returncode == _FAILED:
        return ended.stdout.splitlines()[-1]
    return f"importing it ended the process with {ended.returncode}" if ended.returncode else ""
