"""Predict the CPU seconds of decoding."""

from __future__ import annotations

import numpy as np

from framefeed.bitstreams import Codec
from framefeed.index._frame_index import FrameIndex
from framefeed.index._pictures import has_picture_files
from framefeed.index._runs import DecodeRuns

# Fitted to the CPU time of loading clips of 8 frames to 224 x 224 in one thread: 169 real videos of 15 codecs and 170
# pictures, on two busy x86-64 cores. 96 % of the videos took half to twice what is predicted. The seconds of a byte
# are a column of the table of codecs: a byte of a dense stream takes longer.
SECONDS_PER_PICTURE = 4e-5
"""For each decoded picture of any size."""
SECONDS_PER_DECODED_PIXEL = 0.5e-9
SECONDS_PER_DELIVERED = 3e-4
"""For each delivered frame of any size."""
SECONDS_PER_DELIVERED_PIXEL = 2.8e-9
"""For each pixel of the frame before it is resized."""
SECONDS_PER_OPEN = 1e-3
"""For each run through a container; not for packets that are read from the file directly."""
SECONDS_PER_FILE = 1.2e-3
"""For each picture of any size in its own file."""
SECONDS_PER_FILE_PIXEL = 1e-8
"""For each pixel of such a picture: JPEG 0.9, PNG 0.8, WebP 1.4, AVIF 1.6."""


def predict_seconds(index: FrameIndex, runs: DecodeRuns) -> float:
    """Predict the CPU seconds of runs, and of resizing their frames."""
    stream, delivered = index.stream, runs.num_frames
    pixels = stream.width * stream.height
    if has_picture_files(index):
        return runs.num_decoded * (SECONDS_PER_FILE + pixels * SECONDS_PER_FILE_PIXEL)
    sent_bytes = int(np.maximum(0, index.packets.size[runs.send]).sum())
    opens = 0 if stream.contiguous else len(runs)
    return (
        runs.num_decoded * (SECONDS_PER_PICTURE + pixels * SECONDS_PER_DECODED_PIXEL)
        + sent_bytes * Codec.of(stream.codec).seconds_per_byte
        + delivered * (SECONDS_PER_DELIVERED + pixels * SECONDS_PER_DELIVERED_PIXEL)
        + opens * SECONDS_PER_OPEN
    )
