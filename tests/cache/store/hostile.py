"""Segments by the specification alone, made with pyarrow: sound ones, and such as claim what is not so."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

KEY = bytes(range(100, 116))
FRAMES = {number: bytes([number + 1]) * 30 for number in range(4)}
COLUMNS = {
    "key": pa.binary(16),
    "number": pa.int64(),
    "offset": pa.int64(),
    "nbytes": pa.int64(),
    "raw_nbytes": pa.int64(),
    "checksum": pa.uint64(),
    "stamp": pa.uint64(),
    "content": pa.uint64(),
    "kind": pa.int32(),
}
SCHEMA = pa.schema(
    [*(pa.field(name, kind, nullable=False) for name, kind in COLUMNS.items()), ("data", pa.large_binary())],
    {"framefeed": json.dumps({"format": 1})},
)
TEXT = {"format": 1, "created": 3, "kinds": [["raw", "rgb24 1x1 2 0 p"]]}


@dataclass
class Said:
    """What a segment is to say of itself where that is not what is so.

    Attributes:
        columns: Column of the directory -> its values.
        text: What the directory says besides its rows.
        metadata: Further metadata of the directory.
        checksum: Of the directory.
        compression: Of the whole file.
    """

    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    text: bytes = json.dumps(TEXT).encode()
    metadata: Mapping[bytes, bytes] = field(default_factory=dict)
    checksum: bytes | None = None
    compression: str | None = None


def segment_of(frames: Mapping[int, bytes], said: Said | None = None) -> bytes:
    """A segment of one clip of the stream ``KEY``."""
    said = said or Said()
    rows: dict[str, Sequence[Any]] = {
        "key": [KEY] * len(frames),
        "number": list(frames),
        "offset": [0] * len(frames),
        "nbytes": [len(data) for data in frames.values()],
        "raw_nbytes": [100 + number for number in frames],
        "checksum": [checksum_of(number, data) for number, data in frames.items()],
        "stamp": [5] * len(frames),
        "content": [7] * len(frames),
        "kind": [0] * len(frames),
    }
    sink = io.BytesIO()
    writer = pa.ipc.new_file(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=said.compression))
    writer.write_batch(_batch(rows, list(frames.values())))
    begin = max(0, sink.getvalue().find(b"".join(frames.values())))
    rows["offset"] = [begin + sum(rows["nbytes"][:at]) for at in range(len(frames))]
    rows |= said.columns
    directory = _batch(rows, [None] * len(rows["key"]))
    checksum = said.checksum or _checksum(said.text, directory)
    writer.write_batch(directory, custom_metadata={b"framefeed": said.text, b"checksum": checksum, **said.metadata})
    writer.close()
    return sink.getvalue()


def checksum_of(number: int, data: bytes) -> int:
    """Of a frame."""
    return xxhash.xxh3_64_intdigest(data, seed=xxhash.xxh3_64_intdigest(KEY, seed=number % 2**64))


def _batch(rows: Mapping[str, Sequence[Any]], data: Sequence[bytes | None]) -> pa.RecordBatch:
    columns = [pa.array(rows[name], kind) for name, kind in COLUMNS.items()]
    return pa.RecordBatch.from_arrays([*columns, pa.array(data, pa.large_binary())], schema=SCHEMA)


def _checksum(text: bytes, directory: pa.RecordBatch) -> bytes:
    digest = xxhash.xxh3_128(text)
    for name, kind in COLUMNS.items():
        digest.update(
            np.frombuffer(directory.column(name).buffers()[1], np.uint8)[: len(directory) * kind.bit_width // 8]
        )
    return digest.hexdigest().encode()


def claims() -> dict[str, bytes]:
    """Segments that are not to be believed, by what is wrong with them."""
    far = 2**62
    directories = {
        "beyond the end": {"offset": [far, far, far, far]},
        "wrapping around": {"offset": [2**63 - 10] * 4},
        "before the beginning": {"offset": [-1, 1500, 1600, 1700]},
        "negative sizes": {"nbytes": [-30, 30, 30, 30]},
        "huge sizes": {"nbytes": [far, far, far, far]},
        "larger than a frame may be": {"nbytes": [2**31, 0, 0, 0], "offset": [1500] * 4},
        "bombs": {"raw_nbytes": [far, 1, 1, 1]},
        "negative bombs": {"raw_nbytes": [-1, 1, 1, 1]},
        "one over the other": {"offset": [1500] * 4},
        "backwards": {"offset": [1590, 1560, 1530, 1500]},
        "in the directory": {"offset": [1500, 1530, 1560, 2500]},
        "kinds that are none": {"kind": [0, 0, 1, 0]},
        "kinds below none": {"kind": [-2, 0, 0, 0]},
        "no rows": dict.fromkeys(COLUMNS, ()),
        "too many rows": {
            **dict.fromkeys(COLUMNS, [0] * (2**17 + 1)),
            "key": [KEY] * (2**17 + 1),
            "number": range(2**17 + 1),
        },
    }
    texts = {
        "another format": TEXT | {"format": 2},
        "no format": {"created": 3, "kinds": []},
        "formats": TEXT | {"format": [1]},
        "no kinds": {"format": 1, "created": 3},
        "kinds of numbers": TEXT | {"kinds": [[1, 2]]},
        "kinds of one": TEXT | {"kinds": [["raw"]]},
        "too many kinds": TEXT | {"kinds": [["raw", "x" * 40]] * 40_000},
        "created never": TEXT | {"created": None},
        "created before": TEXT | {"created": -1},
        "created too late": TEXT | {"created": 2**64},
        "a list": [1, 2],
        "a number": 17,
    }
    raw = {
        "deep": b'{"format": 1, "kinds": ' + b"[" * 200_000,
        "long": b'{"format": 1' + b"1" * 100_000 + b"}",
        "not utf-8": b'{"format": 1, "\xff": 2}',
        "nothing": b"",
    }
    return (
        {name: segment_of(FRAMES, Said(columns=columns)) for name, columns in directories.items()}
        | {name: segment_of(FRAMES, Said(text=json.dumps(said).encode())) for name, said in texts.items()}
        | {name: segment_of(FRAMES, Said(text=said)) for name, said in raw.items()}
        | {
            "a wrong checksum": segment_of(FRAMES, Said(checksum=b"0" * 32)),
            "huge metadata": segment_of(FRAMES, Said(metadata={b"more": bytes(20_000_000)})),
            "much metadata": segment_of(FRAMES, Said(metadata={b"%d" % n: b"" for n in range(20)})),
            "compressed": segment_of({0: bytes(60_000_000)}, Said(compression="zstd")),
            "compressed too": segment_of(FRAMES, Said(compression="lz4")),
            "other columns": _of_other_columns(),
            "no batches": _of_other_columns(0),
        }
    )


def _of_other_columns(batches: int = 1) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"a": pa.array(["x", "y"]).dictionary_encode()})
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches() * batches:
            writer.write_batch(batch, custom_metadata={b"framefeed": json.dumps(TEXT).encode()})
    return sink.getvalue()
