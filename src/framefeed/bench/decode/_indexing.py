"""What our index costs, and after how many clips of a file it has paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from framefeed.bench._measuring import Contender, Rounds, measure
from framefeed.bench._media import BenchVideo
from framefeed.index import Verify, build_index

_VERIFIES: tuple[Verify, ...] = ("ends", "none")


def index_cost(video: BenchVideo, rounds: int = 3) -> dict[str, float]:
    """CPU seconds of building the index of a video, by how it is verified."""

    def run(verify: Verify) -> Contender:
        return Contender(verify, lambda number: build_index(video.path, verify))

    samples = measure([run(verify) for verify in _VERIFIES], Rounds(rounds, rounds))
    return {verify: round(samples.median(verify), 4) for verify in _VERIFIES}


def pays_after(index_seconds: float, ours: float, best: float) -> int | None:
    """Clips of a file after which building its index and decoding with it is cheaper than the best peer; None: never.

    Args:
        index_seconds: CPU of building it.
        ours: CPU seconds of a clip with the index.
        best: CPU seconds of a clip by the best peer, which opens the file for each.
    """
    return None if best <= ours else math.ceil(index_seconds / (best - ours))


def index_rows(videos: dict[str, BenchVideo], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cost of the index of each row's video beside what a clip of it saves.

    Args:
        videos: Row key -> its video.
        rows: Reports of rows under the rule "many files".
    """
    out = []
    for row in rows:
        under = [entry for entry in row.get("contenders", ()) if entry["rule"] == "many files"]
        if row["key"] not in videos or not under:
            continue
        seconds = {entry["name"]: 1 / entry["clips_per_cpu_second"] for entry in under}
        ours = seconds.pop("framefeed")
        cost = index_cost(videos[row["key"]])
        best = min(seconds.values(), default=math.inf)
        paid = {name: pays_after(value, ours, best) if seconds else None for name, value in cost.items()}
        out.append({"row": row["key"], "cpu_seconds": cost, "pays_after_clips": paid})
    return out
