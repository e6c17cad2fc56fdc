"""Part 4, upload of batches of RGB and of planes: pinned or not, overlapped with a network's step or not."""

from __future__ import annotations

from typing import Any

from benchmarks.device.rows import Trial, refuse_rehearsal, require_cuda
from benchmarks.device.timing import time_on_device, warm_up

SHAPES = {"RGB 16x16x224x224": (16, 16, 224, 224, 3), "planes of 256 720p frames": (256, 1080, 1280)}
_FEW = 8 * 2**30
"""Bytes of free device memory below which a quarter of the frames is sent."""


def measure(trial: Trial) -> None:
    refuse_rehearsal(trial)
    torch = require_cuda()
    warm_up(torch)
    step = _make_step(torch)
    trial.run("step alone", lambda: {"time": time_on_device(torch, step)})
    for name, shape in SHAPES.items():
        if torch.cuda.mem_get_info()[0] < _FEW:
            shape = (shape[0] // 4, *shape[1:])
        for memory in ("pageable", "pinned"):
            for is_overlapped in (False, True):
                trial.run(
                    "upload",
                    lambda shape=shape, memory=memory, is_overlapped=is_overlapped: _measure_upload(
                        torch, shape, memory == "pinned", step if is_overlapped else None
                    ),
                    what=name,
                    memory=memory,
                    overlapped=is_overlapped,
                )


def _measure_upload(torch: Any, shape: tuple[int, ...], is_pinned: bool, step: Any) -> dict[str, Any]:
    """Time an upload alone, or together with a step on another stream."""
    source = torch.ones(shape, dtype=torch.uint8)
    source = source.pin_memory() if is_pinned else source
    target = torch.empty(shape, dtype=torch.uint8, device="cuda")
    side = torch.cuda.Stream()

    def overlap() -> None:
        # The events of the timing are on the current stream, which waits for the upload at the end.
        side.wait_stream(torch.cuda.current_stream())
        if is_pinned:
            _copy_on(torch, side, target, source)
            step()
        else:  # a copy from pageable memory holds the caller, so the step is begun before it
            step()
            _copy_on(torch, side, target, source)
        torch.cuda.current_stream().wait_stream(side)

    work = overlap if step is not None else lambda: target.copy_(source, non_blocking=True)
    took = time_on_device(torch, work)
    return {
        "time": took,
        "mb": round(source.numel() / 1e6, 1),
        "gb_per_second": round(source.numel() / took["ms"] / 1e6, 2),
    }


def _copy_on(torch: Any, stream: Any, target: Any, source: Any) -> None:
    with torch.cuda.stream(stream):
        target.copy_(source, non_blocking=True)


def _make_step(torch: Any) -> Any:
    """Make a step of a small convolutional network: forward, backward and update on 64 pictures of 224x224."""
    layers: list[Any] = []
    for inputs, outputs in ((3, 64), (64, 128), (128, 256), (256, 256)):
        layers += [torch.nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 100))
    network = network.to("cuda", torch.bfloat16)
    pictures = torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        network(pictures).float().square().mean().backward()
        optimizer.step()

    return step
