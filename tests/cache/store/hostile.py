"""Segments by the specification alone: sound ones, and such as claim what is not so."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

KEY = bytes(range(100, 116))
FRAMES = {number: bytes([number + 1]) * 30 for number in range(4)}
COLUMNS = {
    "number": "q",
    "offset": "q",
    "checksum": "Q",
    "stamp": "Q",
    "content": "Q",
    "nbytes": "i",
    "raw_nbytes": "i",
    "stream": "i",
    "kind": "i",
}
HEADER = {
    "magic": "8s",
    "format": "I",
    "num_rows": "I",
    "num_streams": "I",
    "kinds_nbytes": "I",
    "created": "q",
    "data_nbytes": "q",
    "texts_nbytes": "q",
    "texts_checksum": "16s",
}
KINDS = [["raw", "rgb24 1x1 2 0 p"]]

Files = tuple[bytes, bytes]
"""Content of the data file and of the directory of a segment."""


@dataclass
class Said:
    """What a segment is to say of itself where that is not what is so.

    Attributes:
        columns: Column of the directory -> its values.
        header: Field of the header -> its value.
        kinds: The JSON of the kinds.
        texts: The JSON of the descriptions.
        checksum: Of the directory.
        more: What follows the directory.
    """

    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)
    kinds: bytes = json.dumps(KINDS).encode()
    texts: bytes = b'["a stream"]'
    checksum: bytes | None = None
    more: bytes = b""


def segment_of(frames: Mapping[int, bytes], said: Said | None = None) -> Files:
    """A segment of one clip of the stream ``KEY``."""
    said = said or Said()
    data = b"".join(frames.values())
    sizes = [len(each) for each in frames.values()]
    columns: dict[str, Sequence[Any]] = {
        "number": list(frames),
        "offset": [sum(sizes[:at]) for at in range(len(sizes))],
        "checksum": [checksum_of(number, each) for number, each in frames.items()],
        "stamp": [5] * len(frames),
        "content": [7] * len(frames),
        "nbytes": sizes,
        "raw_nbytes": [100 + number for number in frames],
        "stream": [0] * len(frames),
        "kind": [0] * len(frames),
        **said.columns,
    }
    rows = b"".join(
        struct.pack("<" + "".join(COLUMNS.values()), *(columns[name][at] for name in COLUMNS))
        for at in range(len(columns["number"]))
    )
    header = {
        "magic": b"ff rows\n",
        "format": 2,
        "num_rows": len(columns["number"]),
        "num_streams": 1,
        "kinds_nbytes": len(said.kinds),
        "created": 3,
        "data_nbytes": len(data),
        "texts_nbytes": len(said.texts),
        "texts_checksum": xxhash.xxh3_128_digest(said.texts),
        **said.header,
    }
    head = struct.pack("<" + "".join(HEADER.values()), *(header[name] for name in HEADER))
    checksum = said.checksum or xxhash.xxh3_128_digest(head + rows + KEY + said.kinds)
    return data, head + checksum + rows + KEY + said.kinds + said.texts + said.more


def checksum_of(number: int, data: bytes) -> int:
    """Of a frame."""
    return xxhash.xxh3_64_intdigest(data, seed=xxhash.xxh3_64_intdigest(KEY, seed=number % 2**64))


def claims() -> dict[str, Files]:
    """Segments that are not to be believed, by what is wrong with them."""
    far, most = 2**62, 2**31 - 1
    columns = {
        "beyond the end": {"offset": [far, far, far, far]},
        "wrapping around": {"offset": [2**63 - 10] * 4},
        "before the beginning": {"offset": [-1, 30, 60, 90]},
        "negative sizes": {"nbytes": [-30, 30, 30, 30]},
        "large sizes": {"nbytes": [most, most, most, most]},
        "negative bombs": {"raw_nbytes": [-1, 1, 1, 1]},
        "one over the other": {"offset": [0] * 4},
        "backwards": {"offset": [90, 60, 30, 0]},
        "one byte too many": {"offset": [0, 30, 60, 91]},
        "kinds that are none": {"kind": [0, 0, 1, 0]},
        "kinds below none": {"kind": [-1, 0, 0, 0]},
        "streams that are none": {"stream": [0, 0, 1, 0]},
        "streams below none": {"stream": [-1, 0, 0, 0]},
        "no rows": dict.fromkeys(COLUMNS, ()),
        "too many rows": {name: [0] * (2**17 + 1) for name in COLUMNS},
    }
    headers: dict[str, dict[str, Any]] = {
        "another format": {"format": 3},
        "an older format": {"format": 1},
        "another magic": {"magic": b"ARROW1\0\0"},
        "fewer rows": {"num_rows": 3},
        "more rows": {"num_rows": 5},
        "far more rows": {"num_rows": 2**32 - 1},
        "no streams": {"num_streams": 0},
        "more streams": {"num_streams": 2},
        "far more streams": {"num_streams": 2**32 - 1},
        "more streams than rows": {"num_streams": 5},
        "more kinds": {"kinds_nbytes": 2**32 - 1},
        "created before": {"created": -1},
        "less data": {"data_nbytes": 119},
        "more data": {"data_nbytes": 121},
        "negative data": {"data_nbytes": -1},
        "more texts": {"texts_nbytes": 2**62},
        "negative texts": {"texts_nbytes": -1},
    }
    kinds = {
        "no kinds": b"[]",
        "kinds of numbers": b"[[1, 2]]",
        "kinds of one": b'[["raw"]]',
        "too many kinds": json.dumps([["raw", "x" * 40]] * 40_000).encode(),
        "a number": b"17",
        "deep": b"[" * 200_000,
        "long": b"[1" + b"1" * 100_000 + b"]",
        "not utf-8": b'[["\xff", "a"]]',
        "nothing": b"",
    }
    return (
        {name: segment_of(FRAMES, Said(columns=said)) for name, said in columns.items()}
        | {name: segment_of(FRAMES, Said(header=said)) for name, said in headers.items()}
        | {name: segment_of(FRAMES, Said(kinds=said)) for name, said in kinds.items()}
        | {
            "a wrong checksum": segment_of(FRAMES, Said(checksum=b"0" * 16)),
            "more than it says": segment_of(FRAMES, Said(more=b"\0")),
            "much more": segment_of(FRAMES, Said(more=bytes(20_000_000))),
            "long texts": segment_of(FRAMES, Said(texts=b'["' + b"x" * 17_000_000 + b'"]')),
            "an empty directory": (segment_of(FRAMES)[0], b""),
            "a short header": (segment_of(FRAMES)[0], segment_of(FRAMES)[1][:79]),
            "no data": (b"", segment_of(FRAMES)[1]),
            "other files": (b"PK" * 60, b"PAR1" * 500),
        }
    )
