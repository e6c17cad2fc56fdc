"""The lines of the table of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reading import Number

HEADER = ("what", "against", "times as fast: CPU / wall")
_WALKS = {
    "walk": "small members, ustar",
    "walk:GNU": "the same, GNU",
    "walk:pax": "the same, pax with times",
    "walk:pictures": "pictures of 30 kB with labels",
    "walk:clips": "clips of 2 MB with labels",
}
_RIVALS = {
    "exact": "WebDataset, TorchCodec (exact) on the bytes",
    "approximate": "WebDataset, TorchCodec (approximate) on the bytes",
}


def list_lines(numbers: Mapping[str, Number]) -> list[tuple[str, str, str]]:
    """Write the lines of those figures that are measured."""
    lines: list[tuple[str, str, str]] = [
        ("random clips from tar archives, 2 workers", "the same files, unpacked", "unpacked/files")
    ]
    for key, title in {"webdataset": "members of 10 s", "webdataset-long": "members of about 100 MB"}.items():
        lines += [(f"random clips of {title}, one thread", rival, f"{key}/{name}") for name, rival in _RIVALS.items()]
    lines += [
        ("scan of 20,000 pictures of 8 kB in tar archives", "the same files, unpacked", "scan/files"),
        *((f"walk of a tar of 100,000 members: {title}", "Python's `tarfile`", f"{key}/tarfile")
          for key, title in _WALKS.items()),
        ("the first of these, with samples", "the same, which finds none", "walk/tarfile, samples"),
    ]  # fmt: skip
    clocks: Sequence[str] = ("CPU", "wall")
    return [
        (what, against, " / ".join(numbers[f"archives/{key}/{clock}"].format(2) for clock in clocks))
        for what, against, key in lines
        if all(f"archives/{key}/{clock}" in numbers for clock in clocks)
    ]
