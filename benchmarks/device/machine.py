"""Part 1, what is there: driver, libraries, torch, the pack's packages and framefeed; bandwidths of copies."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.device.peers import load_torchcodec, load_video_codec
from benchmarks.device.rows import Trial, Unavailable, require_cuda, require_module
from benchmarks.device.timing import time_on_device, warm_up

_LIBRARIES = ("libcuda.so.1", "libnvcuvid.so.1", "libnvjpeg.so.13", "libnvjpeg.so.12", "libnvidia-encode.so.1")
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local", "/opt")
_WITHOUT_LIBRARIES = {"share", "include", "doc", "node_modules", "python3"}
_COPIED = 256 * 2**20
"""Bytes of one copy; a quarter where the device has little memory."""


def measure(trial: Trial) -> None:
    trial.run("machine", _describe_machine)
    trial.run("driver", _describe_driver)
    folders = _list_libraries()
    for name in _LIBRARIES:
        trial.run("library", lambda name=name: _find_library(name, folders), library=name)
    trial.run("torch", _describe_torch)
    trial.run("av", _describe_av)
    trial.run("framefeed", _describe_framefeed)
    for name, load in {"torchcodec": load_torchcodec, "PyNvVideoCodec": load_video_codec}.items():
        trial.run("import", lambda load=load: {"how": load()[1]}, module=name)
    for name in ("torchvision", "triton", "simplejpeg"):
        trial.run("import", lambda name=name: {"version": _get_version(require_module(name))}, module=name)
    trial.run("decoder capabilities", _describe_capabilities)
    trial.run("warm-up", lambda: warm_up(require_cuda()))
    for name in ("pageable to device", "pinned to device", "device to pageable", "device to device"):
        trial.run("copy", lambda name=name: _measure_copy(name), what=name)


def _describe_machine() -> dict[str, Any]:
    compilers = [name for name in ("gcc", "cc", "g++", "nvcc") if shutil.which(name)]
    return {
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "compilers": compilers,
    }


def _describe_driver() -> dict[str, Any]:
    command = shutil.which("nvidia-smi")
    if command is None:
        raise Unavailable("no driver: there is no nvidia-smi")
    query = "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem"
    finished = subprocess.run(
        [command, query, "--format=csv,noheader"], capture_output=True, text=True, timeout=30, check=False
    )
    if finished.returncode:
        raise Unavailable(f"no driver: nvidia-smi says {(finished.stderr or finished.stdout).strip()[:120]}")
    return {"devices": finished.stdout.strip().splitlines()}


def _find_library(name: str, folders: Mapping[str, str]) -> dict[str, Any]:
    """Say whether a library lies anywhere, and whether it loads by its name."""
    stem = name.split(".so")[0]
    folder = next((folder for file, folder in sorted(folders.items()) if file.startswith(f"{stem}.so")), None)
    try:
        ctypes.CDLL(name)
    except OSError as error:
        found = "not found" if folder is None else f"lies in a folder {folder}, and does not load"
        raise Unavailable(f"{found}: {error}") from error
    return {"folder": folder, "loads": True}


def _list_libraries() -> dict[str, str]:
    """List the shared libraries in the folders where drivers lie, with the last two names of their folder."""
    found: dict[str, str] = {}
    for top in (*_FOLDERS, *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        for folder, folders, files in os.walk(top) if top else ():
            folders[:] = [name for name in folders if name not in _WITHOUT_LIBRARIES]
            where = "/".join(Path(folder).parts[-2:])
            found.update({file: where for file in files if ".so" in file})
    return found


def _describe_torch() -> dict[str, Any]:
    torch = require_module("torch")
    facts = {"version": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        facts |= {"device": device.name, "memory_gib": round(device.total_memory / 2**30, 1)}
        facts |= {"capability": f"{device.major}.{device.minor}", "multiprocessors": device.multi_processor_count}
    return facts


def _describe_av() -> dict[str, Any]:
    av = require_module("av")
    from av.codec.hwaccel import hwdevices_available

    return {
        "version": av.__version__,
        "libavcodec": av.library_versions["libavcodec"],
        "hardware": hwdevices_available(),
    }


def _describe_framefeed() -> dict[str, Any]:
    framefeed = require_module("framefeed")
    return {"version": framefeed.__version__, "file_of": Path(framefeed.__file__).parent.name}


def _get_version(module: Any) -> str:
    return str(getattr(module, "__version__", "unknown"))


def _describe_capabilities() -> dict[str, Any]:
    """Ask the driver through PyNvVideoCodec what the decoder takes."""
    codecs = load_video_codec()[0]
    require_cuda()
    facts: dict[str, Any] = {}
    chroma = codecs.cudaVideoChromaFormat.__members__
    for codec in ("H264", "HEVC", "AV1", "VP9"):
        for form, depth in (("420", 8), ("420", 10), ("422", 8)):
            if form in chroma:
                wanted = getattr(codecs.cudaVideoCodec, codec)
                facts[f"{codec} {form} {depth}"] = dict(codecs.GetDecoderCaps(0, wanted, chroma[form], depth))
    return facts


def _measure_copy(what: str) -> dict[str, Any]:
    torch = require_cuda()
    free, _ = torch.cuda.mem_get_info()
    size = _COPIED if free > 8 * _COPIED else _COPIED // 4
    on_device = torch.empty(size, dtype=torch.uint8, device="cuda")
    other = {
        "pageable to device": lambda: torch.ones(size, dtype=torch.uint8),
        "pinned to device": lambda: torch.ones(size, dtype=torch.uint8).pin_memory(),
        "device to pageable": lambda: torch.ones(size, dtype=torch.uint8),
        "device to device": lambda: torch.ones(size, dtype=torch.uint8, device="cuda"),
    }[what]()
    source, target = (on_device, other) if what.startswith("device to pageable") else (other, on_device)
    took = time_on_device(torch, lambda: target.copy_(source, non_blocking=True))
    moved = size * (2 if what == "device to device" else 1)  # read and written
    return {"time": took, "gb_per_second": round(moved / took["ms"] / 1e6, 2)}
