"""PyAV's hardware decoder on a bare context, and the planes of its frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.device.media import Clip, Planes
from benchmarks.device.rows import Unavailable, describe, require_module

HARDWARE_FORMATS = {"nv12": 0, "p010le": 6, "p016le": 0}
"""Formats on the device, and by how many bits their values are shifted."""
# How libavutil comes to the context in which torch works: planes of another context cannot be read by torch. "primary"
# is what PyAV asks for by itself; libavutil refuses it if the primary context is in use with other flags than its own
# ("Primary context already active with incompatible flags"), as it is once torch works on the device.
CONTEXTS: dict[str, dict[str, object]] = {
    "current": {"primary_ctx": "0", "current_ctx": "1"},
    "primary": {"primary_ctx": "1"},
}
_FOUND: list[str] = []


class FellBack(Exception):
    """The hardware decoder decoded on the CPU without a word."""


def make_decoder(clip: Clip, options: dict[str, str] | None = None, *, context: str | None = None) -> Any:
    """Make a hardware decoder whose frames stay on the device, and open it.

    Args:
        clip: Its stream; in the first call of a process, one that the hardware decodes.
        options: Of libavcodec.
        context: Key of ``CONTEXTS``; None for the first that works here.

    Raises:
        Unavailable: This build of libavcodec has no CUDA configuration for the codec, or no context works.
    """
    av = require_module("av")
    accel = av.codec.hwaccel.HWAccel(
        "cuda", is_hw_owned=True, allow_software_fallback=False, options=CONTEXTS[context or _find_context(clip)]
    )
    # By its name, AV1's native decoder, which has a CUDA configuration; a container would choose libdav1d.
    decoder = av.CodecContext.create(av.Codec(clip.codec, "r"), "r", hwaccel=accel)
    if not decoder.is_hwaccel:
        raise Unavailable(f"libavcodec's decoder {decoder.codec.name} has no CUDA configuration")
    return clip.configure(decoder, options)


def _find_context(clip: Clip) -> str:
    """Find the first way to torch's context that gives right planes of a sound clip; once a process."""
    problems: list[str] = []
    for name in CONTEXTS if not _FOUND else ():
        try:
            if try_context(clip, name)["right"]:
                _FOUND.append(name)
                break
            problems.append(f"{name}: wrong planes")
        except Exception as error:  # another way may work
            problems.append(f"{name}: {describe(error)}")
    if not _FOUND:
        raise Unavailable(f"libavutil comes to torch's context in no way: {'; '.join(problems)}")
    return _FOUND[0]


def try_context(clip: Clip, name: str) -> dict[str, Any]:
    """Decode a frame by one way to torch's context, and read it with torch."""
    ordinal, frame = next(clip.decode(make_decoder(clip, context=name), clip.whole))
    luma, _ = download_planes(frame)
    return {"format": frame.format.name, "right": bool((luma == clip.reference[ordinal][0]).all())}


def export_planes(frame: Any) -> tuple[Any, Any]:
    """Give the planes of a frame on the device as tensors without a copy.

    As capsules: ``torch.from_dlpack(plane)`` would hand over its stream, which PyAV refuses.

    Raises:
        FellBack: The frame is not on the device.
    """
    torch = require_module("torch")
    if frame.format.name != "cuda":
        raise FellBack(f"the frame is {frame.format.name} in memory, not on the device")
    luma, chroma = (torch.from_dlpack(plane.__dlpack__()) for plane in frame.planes[:2])
    return luma, chroma


def download_planes(frame: Any) -> Planes:
    """Copy the planes of a frame on the device to arrays, values in the low bits."""
    torch = require_module("torch")
    torch.cuda.synchronize()  # the decoder's work is on no stream that torch knows
    planes = export_planes(frame)
    shift = HARDWARE_FORMATS[frame.sw_format.name]
    luma, chroma = (_download(torch, plane) >> shift for plane in planes)
    return luma, chroma


def _download(torch: Any, plane: Any) -> Any:
    """Copy a plane; torch copies 16 bits as signed ones, because it does little with unsigned ones."""
    if plane.element_size() == 1:
        return plane.cpu().numpy()
    return plane.view(torch.int16).cpu().numpy().view(np.uint16)
