"""Part 5, planes -> resized, normalised bfloat16: torch, torch.compile and a Triton kernel, and RGB by torchvision."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.device.resizing import (
    CENTRE,
    LEFT,
    MEAN,
    STD,
    Conversion,
    TorchResize,
    make_conversion,
    resize_reference,
)
from benchmarks.device.rows import Trial, Unavailable, require_cuda, require_module
from benchmarks.device.timing import time_somewhere, warm_up

TOLERANCE = 0.02
"""Of normalised values: bfloat16 has 8 bits, and the largest are 2.6."""
_CHECKED = 2
"""Frames that are compared with the reference."""


@dataclass
class Inputs:
    """What all ways get.

    Attributes:
        torch: The module.
        device: "cpu" or "cuda".
        luma: uint8 [N, H, W].
        chroma: uint8 [N, H/2, W/2, 2].
        size: (height, width) of the result.
        conversion: Of the colours.
    """

    torch: Any
    device: str
    luma: Any
    chroma: Any
    size: tuple[int, int]
    conversion: Conversion

    @property
    def frame(self) -> tuple[int, int]:
        """(height, width) of the frames."""
        return tuple(self.luma.shape[1:])

    def check(self, result: Any, siting: float) -> float:
        """Compare with the reference; return the worst difference.

        Raises:
            ArithmeticError: It is more than rounding explains.
        """
        luma, chroma = (plane[:_CHECKED].cpu().numpy() for plane in (self.luma, self.chroma))
        expected = resize_reference(luma, chroma, self.size, self.conversion, siting)
        worst = float(np.abs(result[:_CHECKED].float().cpu().numpy() - expected).max())
        if not worst <= TOLERANCE:
            raise ArithmeticError(f"differs by {worst:.3g} from the reference, of at most {TOLERANCE}")
        return round(worst, 5)


def measure(trial: Trial) -> None:
    inputs = _make_inputs(trial.is_rehearsal)
    resize = TorchResize(inputs.torch, inputs.device, inputs.frame, inputs.size, inputs.conversion)
    if not trial.is_rehearsal:
        warm_up(inputs.torch)
    trial.run("memory floor", lambda: _measure_floor(inputs))
    trial.run("RGB, interpolate", lambda: _measure_rgb(inputs, resize.of_rgb))
    trial.run("RGB, torchvision", lambda: _measure_rgb(inputs, _make_torchvision(inputs)))
    ways: dict[str, tuple[Callable[[], Callable[[Any, Any], Any]], float]] = {
        "torch, interpolate": (lambda: resize.by_interpolate, CENTRE),
        "torch, products": (lambda: resize.by_products, LEFT),
        "Triton": (lambda: _make_kernel(trial, inputs, CENTRE), CENTRE),
        "Triton, chroma left": (lambda: _make_kernel(trial, inputs, LEFT), LEFT),
        "torch.compile, interpolate": (lambda: _compile(trial, inputs, resize.by_interpolate), CENTRE),
        "torch.compile, products": (lambda: _compile(trial, inputs, resize.by_products), LEFT),
    }
    for name, (make, siting) in ways.items():
        trial.run(name, lambda make=make, siting=siting: _measure_way(inputs, make(), siting))


def _make_inputs(is_rehearsal: bool) -> Inputs:
    torch = require_module("torch") if is_rehearsal else require_cuda()
    device = "cpu" if is_rehearsal else "cuda"
    frames, height, width, size = (4, 72, 128, (32, 40)) if is_rehearsal else (256, 720, 1280, (224, 224))
    if not is_rehearsal and torch.cuda.mem_get_info()[0] < 16 * 2**30:
        frames = 32
    generator = torch.Generator(device).manual_seed(1)

    def draw(*shape: int) -> Any:
        return torch.randint(0, 256, shape, dtype=torch.uint8, device=device, generator=generator)

    luma, chroma = draw(frames, height, width), draw(frames, height // 2, width // 2, 2)
    return Inputs(torch, device, luma, chroma, size, make_conversion(1))


def _measure_floor(inputs: Inputs) -> dict[str, Any]:
    """Copy as many bytes as must be read and written."""
    torch = inputs.torch
    moved = inputs.luma.numel() + inputs.chroma.numel() + len(inputs.luma) * 3 * inputs.size[0] * inputs.size[1] * 2
    source, target = (torch.empty(moved // 2, dtype=torch.uint8, device=inputs.device) for _ in range(2))
    return {"time": time_somewhere(torch, inputs.device, lambda: target.copy_(source)), "mb": round(moved / 1e6, 1)}


def _measure_way(inputs: Inputs, way: Callable[[Any, Any], Any], siting: float) -> dict[str, Any]:
    worst = inputs.check(way(inputs.luma, inputs.chroma), siting)
    took = time_somewhere(inputs.torch, inputs.device, lambda: way(inputs.luma, inputs.chroma))
    return {"time": took, "frames": len(inputs.luma), "worst": worst}


def _compile(trial: Trial, inputs: Inputs, way: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    if trial.is_rehearsal and not trial.by_hand:
        raise Unavailable("a rehearsal compiles only with --by-hand")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        raise Unavailable("no compiler")
    if inputs.device == "cuda":
        require_module("triton")
    compiled: Callable[[Any, Any], Any] = inputs.torch.compile(way, dynamic=False)
    return compiled


def _make_kernel(trial: Trial, inputs: Inputs, siting: float) -> Callable[[Any, Any], Any]:
    if trial.is_rehearsal and not trial.by_hand:
        raise Unavailable("a rehearsal runs Triton's interpreter only with --by-hand")
    if trial.is_rehearsal:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
    require_module("triton")
    kernel = require_module("benchmarks.device.resizing_kernel")
    made: Callable[[Any, Any], Any] = kernel.TritonResize(
        inputs.device, inputs.frame, inputs.size, inputs.conversion, siting
    )
    return made


def _measure_rgb(inputs: Inputs, way: Callable[[Any], Any]) -> dict[str, Any]:
    """Resize RGB of the full size, which is there already: its conversion is not in the time."""
    torch, (height, width) = inputs.torch, inputs.frame
    shape = (len(inputs.luma), 3, height, width)
    pictures = torch.randint(0, 256, shape, dtype=torch.uint8, device=inputs.device)
    way(pictures)
    return {"time": time_somewhere(torch, inputs.device, lambda: way(pictures)), "frames": len(pictures)}


def _make_torchvision(inputs: Inputs) -> Callable[[Any], Any]:
    functional = require_module("torchvision.transforms.v2.functional")
    torch = inputs.torch

    def convert(pictures: Any) -> Any:
        resized = functional.resize(pictures, list(inputs.size), antialias=True)
        return functional.normalize(functional.to_dtype(resized, torch.bfloat16, scale=True), MEAN, STD)

    return convert
