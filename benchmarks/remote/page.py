"""The lines of the table of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reading import Number

HEADER = ("what", "against", "figure")
_EPOCH = "random clips of 60 videos of 100 MB, 2 workers: times as fast, wall / CPU"


def list_lines(numbers: Mapping[str, Number]) -> list[tuple[str, str, str]]:
    """Write the lines of those figures that are measured."""
    lines: list[tuple[str, str, str, Sequence[tuple[str, int]]]] = [
        ("16 frames in two neighbouring groups of pictures of a video of 1 GB: bytes / requests, at most",
         "the bytes of both groups", "", (("clip/bytes/most", 2), ("clip/requests/most", 0))),
        ("opening that video without a catalog, moov box in front / behind: requests", "", "",
         (("open/requests/moov in front", 0), ("open/requests/moov behind", 0))),
        ("the same: bytes", "the moov box", " kB more",
         (("open/bytes/moov in front", 0), ("open/bytes/moov behind", 0))),
        (_EPOCH, "TorchCodec, exact, over fsspec", "", (("epoch/torchcodec/wall", 1), ("epoch/torchcodec/CPU", 1))),
        ("the same", "TorchCodec, approximate, over fsspec", "",
         (("epoch/torchcodec approximate/wall", 1), ("epoch/torchcodec approximate/CPU", 1))),
        ("the same", "downloading each video, then TorchCodec", "",
         (("epoch/downloaded/wall", 1), ("epoch/downloaded/CPU", 1))),
        ("the same, 64 clips in flight: share of the rate, wall / CPU", "the videos on the local disk", "",
         (("epoch/disk/wall", 2), ("epoch/disk/CPU", 2))),
        ("scan of 10,000 pictures of 30 kB: times as fast, wall / CPU", "one request at a time", "",
         (("scan/pictures/wall", 1), ("scan/pictures/CPU", 1))),
        ("the same: memory at most", "a scan of one picture", " MB more", (("scan/memory/most", 0),)),
        ("scan of 1,000 videos of 200 kB: times as fast, wall / CPU", "one request at a time", "",
         (("scan:MP4/videos/wall", 1), ("scan:MP4/videos/CPU", 1))),
    ]  # fmt: skip
    return [
        (what, against, " / ".join(numbers[f"remote/{key}"].format(digits) for key, digits in keys) + unit)
        for what, against, unit, keys in lines
        if all(f"remote/{key}" in numbers for key, _ in keys)
    ]
