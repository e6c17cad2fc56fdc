"""Program that encodes made-up pictures as H.264, and prints a hash of the file."""

from __future__ import annotations

import hashlib
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from framefeed.encode import VideoOptions, VideoTags, VideoWriter


def main(path: str) -> None:
    height, width = 144, 176
    rows, columns = np.mgrid[0:height, 0:width]
    with VideoWriter(path, VideoOptions("h264"), VideoTags(), Fraction(1, 12)) as writer:
        for number in range(40):
            planes = columns * 4 + number * 3, rows * 4 + number * 5, (rows + columns) * 2 + number
            picture = np.stack([plane % 256 for plane in planes], axis=2).astype(np.uint8)
            picture[2 * number : 2 * number + 8, 3 * number : 3 * number + 8] = 255
            writer.write(picture, number, 1)
    print(json.dumps(hashlib.sha256(Path(path).read_bytes()).hexdigest()))


if __name__ == "__main__":
    main(sys.argv[1])
