"""What framefeed gives for generated media, as one document: to compare commits by, through public names alone.

``python -m tests.golden.behaviour FILE`` writes it in full with the pixels, to be compared between two commits on one
machine; ``--renew`` writes the hashes that the tests compare with.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.cli import main as run_command
from framefeed.testing import make_folder
from tests.pathologies import pathology

HASHES = Path(__file__).with_name("hashes.json")
SIZE = (48, 64)
EPOCHS = 3

MEDIA = (
    "vfr.mkv", "bframes_3.mp4", "silent_pyramid.mp4", "open_gop.mp4", "open_gop_hevc.mkv", "mpeg4_bframes.avi",
    "superframes_vp9.webm", "temporal_units_av1.mp4", "duplicate_pts.mkv", "closed_gop.ts", "edit_list.mp4",
    "rotated_90.mp4", "negative_pts.mkv", "late_key.mp4", "raw.h264", "truncated.mkv", "empty.mp4",
)  # fmt: skip
"""Pathologies of every kind of times and order; where bytes are flipped, an encoder on another CPU may decide."""

RULES: dict[str, ff.ClipRule | Any] = {
    "uniform": ff.Uniform(4),
    "dense stride": ff.Dense(4, stride=3),
    "dense fps": ff.Dense(4, fps=Fraction(15, 2), pick="nearest"),
    "dense from": ff.Dense(4, stride=2, start=0.5, policy="wrap"),
    "random segments": ff.RandomSegments(4),
    "rates": ff.Rates([(2, 2), (8, 2)]),
    "rates from": ff.Rates([(4, 4)], start=0.25, pick="previous"),
    "at indices": ff.AtIndices([0, 5, 2, 400]),
    "at seconds": ff.AtSeconds([0.1, 0.5], pick="next"),
    "every frame": ff.EveryFrame(),
}

DROPPED = frozenset({
    # times of this run, and what is concluded of them
    "seconds", "wall_seconds", "wait_seconds", "waits_seconds", "wait_share", "worker_seconds",
    "step_seconds", "cpu_seconds", "clips_per_second",
    "frames_per_second", "bottleneck", "evidence", "rest_seconds", "decoded_frames_per_delivered_frame", "sentence",
    # sizes of files of catalogs and caches, and of what was read
    "bytes", "bytes_on_disk", "bytes_read", "bytes_freed", "bytes_written", "stored_bytes", "raw_bytes", "free_bytes",
    # versions, formats, fingerprints, messages and paths
    "made_by", "versions", "threads", "limits", "codecs", "fingerprint", "format", "error", "reason", "message",
    "cache", "report", "catalog", "media", "advice", "devices", "extras", "import_errors", "memory", "environment",
})  # fmt: skip


class Behaviour:
    """Media that are made in a folder, and what framefeed says of them.

    Args:
        folder: Empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder / "media", classes=2, videos_per_class=3, seconds=2.0, fps=15, size=SIZE)
        (folder / "odd").mkdir()
        for name in MEDIA:
            pathology(name).write(folder / "odd" / name)
        self.catalog = ff.scan(folder / "media", label_from="parent", root=folder, workers=1)
        self.odd = ff.scan(folder / "odd", root=folder, workers=1)

    def facts(self) -> Iterator[tuple[str, Any]]:
        """Facts and frames of each file."""
        for catalog in (self.catalog, self.odd):
            rows = catalog.table.drop_columns(["mtime_ns", "fingerprint", "error", "bytes"]).to_pylist()
            for number, row in enumerate(rows):
                yield f"row {row['source']}", row
                index = None if row["error_type"] else catalog[number].frame_index
                if index is not None:
                    arrays = (index.pts, index.duration, index.key_frame_indices, index.damaged_frame_indices)
                    yield f"index {row['source']}", [*(array.tolist() for array in arrays), str(index.time_base)]

    def plans(self) -> Iterator[tuple[str, Any]]:
        """Every position of every rule."""
        for name, rule in RULES.items():
            for kind, catalog in (("media", self.catalog), ("odd", self.odd)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    plan = ff.plan_clips(
                        catalog, rule, seed=3, clips_per_video=1 if name == "every frame" else 2, size=SIZE,
                        crop=ff.RandomCrop(40, 40), on_damaged="deliver",
                    )  # fmt: skip
                yield f"plan {kind} {name}", [_request(plan, position) for position in range(len(plan))]
                yield f"state {kind} {name}", without_noise(plan.with_epoch(2).state_dict())

    def batches(self, pixels: dict[str, str]) -> Iterator[tuple[str, Any]]:
        """Three epochs with and without a cache, in one thread and in two.

        Args:
            pixels: Takes the hash of each epoch's pixels.
        """
        for form in (None, "output", "planes"):
            for workers in (0, 2):
                name = f"batches of {form or 'no cache'}, {workers} workers"
                cache = None if form is None else ff.FrameCache(self.folder / f"{form}{workers}", form=form)
                plan = ff.plan_clips(self.catalog, ff.RandomSegments(3), seed=5, size=(32, 40), columns=["label"])
                with ff.ClipLoader(plan, batch_size=4, workers=workers, cache=cache) as loader:
                    for epoch in range(EPOCHS):
                        digest, said = hashlib.sha256(), []
                        for batch in loader:
                            digest.update(np.ascontiguousarray(batch.data).tobytes())
                            said.append([_batch(batch, self.folder), without_noise(loader.state_dict())])
                        yield f"{name}, epoch {epoch}", said
                        pixels[f"{name}, epoch {epoch}"] = digest.hexdigest()

    def commands(self) -> Iterator[tuple[str, Any]]:
        """What every command but bench prints as JSON."""
        video = next(iter(sorted((self.folder / "media").rglob("*.mp4")))).relative_to(self.folder)
        commands = (
            ["scan", "media", "-o", "cat.parquet", "--label-from", "parent"],
            ["scan", "media", "-o", "cat.parquet", "--label-from", "parent"],
            ["scan", "odd", "-o", "odd.parquet", "--verify", "full"],
            ["scan", "odd", "--headers-only"],
            ["report", "cat.parquet", "-o", "report.html"],
            ["report", "odd.parquet", "-o", "odd.html"],
            ["clip", video, "--every", "0.5", "-o", "every"],
            ["clip", video, "--rates", "1:2,4:3", "-o", "rates", "--size", "32x40"],
            ["clip", video, "--indices", "3,0,29", "-o", "indices", "--format", "jpg"],
            ["feed", "cat.parquet", "--rates", "2:4", "--batch-size", "4", "--epochs", "2"],
            ["feed", "odd.parquet", "--rates", "2:2", "--size", "32x32", "--on-damaged", "skip"],
            ["cache", "build", "cat.parquet", "built", "--rates", "2:4", "--codec", "lz4", "--size", "32x40"],
            ["cache", "info", "built"],
            ["cache", "verify", "built"],
            ["feed", "cat.parquet", "--rates", "2:4", "--cache", "built", "--size", "32x40"],
            ["cache", "clear", "built"],
            ["doctor", "cat.parquet"],
        )  # fmt: skip
        for number, words in enumerate(commands):
            name = f"{number}: {' '.join(map(str, words))}"
            code, printed = self._run([*map(str, words), "--json"])
            assert code in (0, 3), name
            yield f"command {name}", [code, without_noise(json.loads(printed.replace(f"{self.folder}/", "")))]

    def _run(self, words: list[str]) -> tuple[int, str]:
        """Run ``framefeed WORDS`` in this process and in the folder; return its exit code and its output."""
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), io.StringIO() as printed:
            warnings.simplefilter("ignore")
            patch.chdir(self.folder)
            patch.setenv("FRAMEFEED_THREADS", "2")
            with redirect_stdout(printed):
                return run_command(words), printed.getvalue()


def _request(plan: ff.EpochPlan, position: int) -> Any:
    try:
        request = plan[position]
    except (ff.FrameNotFound, ff.TimeUnavailable) as error:
        return type(error).__name__
    source = request.source
    where = getattr(source, "source", source)
    arrays = [request.indices, request.pts_seconds, request.pick_error_seconds, request.valid, request.segment]
    output = request.output
    return [
        Path(str(where)).name,
        *(None if array is None else [repr(value) for value in np.asarray(array).tolist()] for array in arrays),
        None if output is None else [repr(output.size), repr(output.crop)],
    ]


def _batch(batch: ff.ClipBatch, folder: Path) -> Any:
    sources = [os.path.relpath(str(source), folder) for source in batch.sources]
    columns = {name: np.asarray(values).tolist() for name, values in batch.columns.items()}
    arrays = (batch.pts_seconds, batch.valid, batch.positions, batch.ok)
    return [list(batch.data.shape), *(np.asarray(array).tolist() for array in arrays), columns, sources]


def without_noise(document: Any) -> Any:
    """Leave out of a JSON document what may differ from run to run, or from version to version."""
    if isinstance(document, dict):
        return {key: without_noise(value) for key, value in document.items() if key not in DROPPED}
    return [without_noise(each) for each in document] if isinstance(document, list) else document


@contextmanager
def behaviour() -> Iterator[Behaviour]:
    """Make the media, and remove them."""
    with tempfile.TemporaryDirectory(prefix="framefeed-golden-") as folder:
        yield Behaviour(Path(folder))


def documents(pixels: dict[str, str]) -> dict[str, Any]:
    """Give everything by name.

    Args:
        pixels: Takes hashes of pixels by name.
    """
    with behaviour() as seen:
        parts = (seen.facts(), seen.plans(), seen.batches(pixels), seen.commands())
        return {name: document for part in parts for name, document in part}


def hashes_of(found: dict[str, Any]) -> dict[str, str]:
    """Hash each document."""
    return {name: hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:16]
            for name, each in found.items()}  # fmt: skip


def main() -> None:
    pixels: dict[str, str] = {}
    found = documents(pixels)
    if sys.argv[1] == "--renew":
        HASHES.write_text(json.dumps(hashes_of(found), indent=1) + "\n")
    else:
        Path(sys.argv[1]).write_text(json.dumps({"documents": found, "pixels": pixels}, indent=1) + "\n")


if __name__ == "__main__":
    main()
