"""Part 6, JPEG on the device against our path on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.device.peers import load_torchcodec
from benchmarks.device.rows import Trial, Unavailable, refuse_rehearsal, require_cuda, require_module
from benchmarks.device.timing import time_calls, warm_up


def measure(trial: Trial) -> None:
    refuse_rehearsal(trial)
    torch = require_cuda()
    warm_up(torch)
    names = trial.read_list()["jpegs"]
    files = [(trial.media / name).read_bytes() for name in names]
    if not files:
        raise Unavailable("the pack has no JPEGs")
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        trial.run("CPU, uploaded", lambda n=threads: _measure_cpu(torch, files, n), threads=threads)
    for name, make in {"TorchCodec": _make_torchcodec, "torchvision": _make_torchvision}.items():
        for is_synchronised in (True, False):
            trial.run(
                f"{name} on the device",
                lambda make=make, is_synchronised=is_synchronised: _measure_device(
                    torch, files, make(), is_synchronised
                ),
                synchronised=is_synchronised,
            )


def _measure_cpu(torch: Any, files: list[bytes], threads: int) -> dict[str, Any]:
    """Decode with simplejpeg in threads, and upload each picture."""
    simplejpeg = require_module("simplejpeg")

    def decode(data: bytes) -> Any:
        return torch.from_numpy(simplejpeg.decode_jpeg(data)).to("cuda", non_blocking=True)

    with ThreadPoolExecutor(threads) as pool:
        took = time_calls(lambda: list(pool.map(decode, files)), torch.cuda.synchronize)
    return {"time": took, "pictures_per_second": round(len(files) / took["ms"] * 1e3, 1)}


def _measure_device(
    torch: Any, files: list[bytes], decode: Callable[[list[Any]], Any], is_synchronised: bool
) -> dict[str, Any]:
    """Decode a batch; nvJPEG's engine does not wait for torch's stream, hence with and without waiting before it."""
    simplejpeg = require_module("simplejpeg")
    tensors = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]

    def decode_batch() -> Any:
        if is_synchronised:
            torch.cuda.synchronize()
        return decode(tensors)

    took = time_calls(decode_batch, torch.cuda.synchronize)
    pictures = decode_batch()
    torch.cuda.synchronize()
    gaps = [
        float(np.abs(picture.cpu().numpy().transpose(1, 2, 0).astype(np.int16) - simplejpeg.decode_jpeg(data)).mean())
        for picture, data in zip(pictures, files, strict=True)
    ]
    return {
        "time": took,
        "pictures_per_second": round(len(files) / took["ms"] * 1e3, 1),
        "worst_mean": round(max(gaps), 3),
    }


def _make_torchcodec() -> Callable[[list[Any]], Any]:
    decoders, _ = load_torchcodec()
    return lambda tensors: decoders.decode_jpeg(tensors, device="cuda")


def _make_torchvision() -> Callable[[list[Any]], Any]:
    io = require_module("torchvision.io")
    return lambda tensors: io.decode_jpeg(tensors, mode=io.ImageReadMode.RGB, device="cuda")
