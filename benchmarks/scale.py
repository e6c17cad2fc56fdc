"""Compute what many clips cost on many nodes, from measured costs, for docs/scale.md.

    python -m benchmarks.scale [--gpu 50] [--cores 32] [--gpus 8] [--write]      (in the project's folder)

Prints the table for GPUs that take so many clips a second, and nodes of so many cores and GPUs. `--write` puts it into
the page, with the values that are there by default; tests/benchmarks/test_scale.py compares the page with it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import ROOT, make_table
from benchmarks.reading import RESULTS

PAGE = ROOT / "docs" / "scale.md"
RAY, CACHE = "ray-2026-11-28.json", "cache-2026-11-28.json"
CLIPS = (1_000_000, 10_000_000, 100_000_000)
NODES = (1, 4, 16, 100)
CLIP_BYTES = 16 * 3 * 224 * 224
HEADER = (
    "clips an epoch", "training nodes",
    "decoding beside the GPUs: these wait", "epoch", "storage",
    "no GPU waits: epoch",
    "by CPU nodes through Ray: nodes", "storage", "to the training nodes",
    "by a frame cache: cores a node", "disk a node", "read of it",
)  # fmt: skip
_BLOCK = re.compile(r"(?<=<!-- scale: costs -->\n)(?s:.*?)(?=<!-- end -->)")


@dataclass(frozen=True)
class Costs:
    """What was measured, of 16 frames of a 720p film, 4 apart, to 224x224.

    Attributes:
        decoded: Clips a CPU second that `ClipLoader` decodes.
        through_ray: Clips a CPU second of `ff.ray.dataset`, the driver and Ray's daemons included.
        cached: Clips a CPU second that `ClipLoader` reads from a frame cache.
        bytes_read: Bytes of the videos that are read for a clip.
    """

    decoded: float
    through_ray: float
    cached: float
    bytes_read: float

    @classmethod
    def read(cls) -> Costs:
        """Take them from benchmarks/results."""
        ray = {title: values[0] for title, values in _load(RAY)["figures"]["one node"].items()}
        whole = 1 / ray["ff.ray.dataset, clips a CPU second"] + ray["ff.ray.dataset, Ray's daemons, CPU s a clip"]
        (row,) = (row for row in _load(CACHE)["rows"] if row["key"] == "batches")
        (loader,) = (each for each in row["contenders"] if each["name"] == "ClipLoader")
        return cls(
            decoded=ray["ClipLoader, clips a CPU second"],
            through_ray=1 / whole,
            cached=16 * loader["per_cpu_second"],
            bytes_read=1e6 * ray["ClipLoader, MB read a clip"],
        )


@dataclass(frozen=True)
class Node:
    """A training node.

    Attributes:
        cores: All of which decode.
        gpus: All of which train.
        gpu: Clips a second that one takes.
    """

    cores: int = 32
    gpus: int = 8
    gpu: float = 50

    @property
    def needs(self) -> float:
        """Clips a second that its GPUs take."""
        return self.gpus * self.gpu


def make_rows(costs: Costs, node: Node) -> Iterator[tuple[str, ...]]:
    """Make a row for each number of clips and of nodes; rates are of all nodes together, but for the cache."""
    given = min(node.needs, node.cores * costs.decoded)
    missing, read = node.needs - given, costs.bytes_read
    for clips in CLIPS:
        for nodes in NODES:
            yield (
                f"{clips // 1_000_000} million",
                str(nodes),
                f"{1 - given / node.needs:.0%} of the time",
                _say_time(clips / (nodes * given)),
                _say_rate(nodes * given * read),
                _say_time(clips / (nodes * node.needs)),
                str(math.ceil(nodes * missing / (node.cores * costs.through_ray))),
                _say_rate(nodes * node.needs * read),
                _say_rate(nodes * missing * CLIP_BYTES),
                f"{node.needs / costs.cached:.1f}",
                _say_size(clips * CLIP_BYTES / nodes),
                _say_rate(node.needs * CLIP_BYTES),
            )


def list_assumptions(costs: Costs, node: Node) -> list[str]:
    """Say what the table takes for granted, and what of it was measured."""
    return [
        f"Measured on a virtual machine of two cores: `ClipLoader` decodes {costs.decoded:.1f} clips a CPU second "
        "(16 frames, 4 apart, of a 720p film of 1.2 Mbit/s, to 224x224), and reads "
        f"{costs.bytes_read / 1e6:.2f} MB for each; `ff.ray.dataset` gives {costs.through_ray:.1f}, with Ray's driver "
        f"and daemons; from a frame cache, stored raw and in the page cache, `ClipLoader` reads {costs.cached:.0f}. "
        "Videos of more bits a second cost more.",
        f"Assumed: a node has {node.cores} cores, all of which decode, and {node.gpus} GPUs, each of which takes "
        f"{node.gpu:g} clips a second (a ViT-L over 16 frames, 1.8 TFLOP a clip with its backward pass, takes 50 at 90 "
        "TFLOP a second). CPU nodes have as many cores, and decode what those of the training nodes do not. Speed "
        "grows with cores and nodes; storage, disks and network keep up.",
        f"A decoded clip has {CLIP_BYTES / 1e6:.1f} MB: that is what CPU nodes send for each, and what a cache holds. "
        "The cache serves epochs that read the same frames again, each node its share of them; the first epoch decodes "
        "them. Clips drawn anew in each epoch need the frames of whole videos in it.",
        "Not in the table: what it costs training nodes to receive what CPU nodes send.",
        "With other values: `python -m benchmarks.scale --gpu 200 --cores 96 --gpus 8`.",
    ]


def fill_costs(costs: Costs | None = None, node: Node | None = None) -> str:
    """The table, and what it takes for granted."""
    costs, node = costs or Costs.read(), node or Node()
    table = make_table(HEADER, list(make_rows(costs, node)))
    lines = (textwrap.fill(f"- {line}", 120, subsequent_indent="  ") for line in list_assumptions(costs, node))
    return table + "\n" + "".join(f"{line}\n" for line in lines)


def fill(text: str) -> str:
    """Replace what is between the markers of the page."""
    return _BLOCK.sub(lambda _: f"\n{fill_costs()}\n", text)


def _load(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _say(number: float) -> str:
    """One decimal below 10, none above."""
    return f"{number:.1f}" if 0 < number < 9.95 else f"{number:.0f}"


def _say_time(seconds: float) -> str:
    for unit, length, least in (("days", 86400, 2), ("h", 3600, 1), ("min", 60, 1)):
        if seconds >= least * length:
            return f"{_say(seconds / length)} {unit}"
    return f"{_say(seconds)} s"


def _say_size(count: float) -> str:
    return f"{_say(count / 1e12)} TB" if count >= 1e12 else f"{_say(count / 1e9)} GB"


def _say_rate(count: float) -> str:
    return f"{_say(count / 1e9)} GB/s" if count >= 1e9 else f"{_say(count / 1e6)} MB/s"


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=float, default=Node.gpu, metavar="CLIPS", help="clips a second that a GPU takes")
    parser.add_argument("--cores", type=int, default=Node.cores, help="of a node")
    parser.add_argument("--gpus", type=int, default=Node.gpus, help="of a node")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.write:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(fill_costs(node=Node(args.cores, args.gpus, args.gpu)), end="")


if __name__ == "__main__":
    main()
