"""Devices as decord names them: ``cpu(0)`` and ``gpu(0)``."""

from __future__ import annotations

from dataclasses import dataclass

from framefeed._checks import expected
from framefeed.errors import UsageError

# DLPack's numbers of devices, which decord uses too.
_CPU, _CUDA = 1, 2


@dataclass(frozen=True, slots=True, repr=False)
class Context:
    """A device.

    Attributes:
        device_type: 1 for the CPU, 2 for CUDA, as in DLPack.
        device_id: Number of the device among those of its type.
    """

    device_type: int
    device_id: int = 0

    def __repr__(self) -> str:
        return f"{'cpu' if self.device_type == _CPU else 'gpu'}({self.device_id})"


def cpu(dev_id: int = 0) -> Context:
    """Name the CPU; every number means the same one."""
    return Context(_CPU, dev_id)


def gpu(dev_id: int = 0) -> Context:
    """Name a GPU; VideoReader refuses it, because framefeed decodes on the CPU."""
    return Context(_CUDA, dev_id)


def check_context(ctx: object) -> None:
    """Check that a device is the CPU."""
    if not isinstance(ctx, Context):
        raise expected("ctx", "cpu(0)", ctx)
    if ctx.device_type != _CPU:
        raise UsageError(
            f"ctx={ctx}: framefeed decodes on the CPU: use ctx=cpu(0), and move the batch to the device, as with "
            'bridge.set_bridge("torch") and batch.to("cuda")'
        )
