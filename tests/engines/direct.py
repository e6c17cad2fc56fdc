"""The engines called directly, as their own documentation does it: nothing of framefeed finds or checks a frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
ReadFrame = Callable[[int], Pixels]
"""Give a frame by its number: RGB uint8 [H, W, 3]."""


def open_opencv(path: Path) -> ReadFrame:
    """Open a file with OpenCV: a seek to the number, and a read."""
    import cv2

    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    if not capture.isOpened():
        raise ValueError("it does not open the file")

    def read(ordinal: int) -> Pixels:
        capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
        came, picture = capture.read()
        if not came:
            raise ValueError("no frame comes")
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))

    return read


def open_torchcodec(path: Path, seek_mode: str = "exact") -> ReadFrame:
    """Open a file with TorchCodec."""
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(str(path), dimension_order="NHWC", seek_mode=seek_mode)
    return lambda ordinal: np.asarray(decoder[ordinal])


def open_torchcodec_approximate(path: Path) -> ReadFrame:
    """Open a file with TorchCodec without its scan of the file."""
    return open_torchcodec(path, "approximate")


def open_decord(path: Path) -> ReadFrame:
    """Open a file with decord2."""
    import decord

    reader = decord.VideoReader(str(path))
    return lambda ordinal: np.asarray(reader[ordinal].asnumpy())


def open_dali(path: Path) -> ReadFrame:
    """Open a file with DALI's decoder of explicit frames."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def decode() -> Any:
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1)
        return fn.decoders.video(encoded, frames=fn.external_source(name="frames", dtype=types.INT32, ndim=1))

    data = np.fromfile(path, np.uint8)

    def read(ordinal: int) -> Pixels:
        pipeline = decode()  # an error ends a pipeline
        pipeline.feed_input("encoded", [data])
        pipeline.feed_input("frames", [np.array([ordinal], np.int32)])
        (frames,) = pipeline.run()
        return np.array(frames.at(0))[0]

    return read


DIRECT: dict[str, Callable[[Path], ReadFrame]] = {
    "opencv": open_opencv,
    "torchcodec": open_torchcodec,
    "torchcodec-approximate": open_torchcodec_approximate,
    "decord": open_decord,
    "dali": open_dali,
}
