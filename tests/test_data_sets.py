"""docs/data-sets.md: each recipe gives all samples of the generated data set, each with its own frames and label."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

import framefeed as ff
from framefeed.testing import read_stamps
from tests.test_docs import HAS_TORCH, ROOT, Block, blocks_of, run_python

PAGE = ROOT / "docs" / "data-sets.md"
LABELS = {
    "Kinetics": (2, 0, 1),
    "Something-Something v2": (4, 0, 1),
    "AVA": None,
    "mmaction: videos": (4, 0, 2),
    "mmaction: frames as pictures": (4, 0, 2),
    "mmaction: frames beside flow": (4, 0, 2),
    "PyTorchVideo and PySlowFast": (4, 0, 2),
    "WebDataset": (4, 0, 2),
    "Hugging Face `Video`": (4, 0, 2),
}
"""Label of each of the three videos, by the heading of the recipe."""
_LINES = 10


@dataclass(frozen=True)
class Sample:
    """What a recipe's plan gives at one position."""

    stamps: list[int]
    """100 times the number of the video, plus that of the frame."""
    indices: list[int]
    row: int
    columns: dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Loaded:
    """Samples of a recipe in the order of its plan, and the values that the recipe left behind."""

    samples: list[Sample]
    names: dict[str, object]


def recipes() -> dict[str, Block]:
    """The block of each recipe by the heading above it."""
    text = PAGE.read_text(encoding="utf-8")
    lines = {text.count("\n", 0, match.start()) + 1: match[1] for match in re.finditer(r"^## (.*)$", text, re.M)}
    blocks = blocks_of(PAGE)[1:]
    found = {lines[max(line for line in lines if line < block.line)]: block for block in blocks}
    assert len(found) == len(blocks)
    return found


def load(plan: ff.EpochPlan) -> list[Sample]:
    samples = []
    with ff.ClipLoader(plan, batch_size=2, workers=1) as loader:
        for batch in loader:
            for number, clip in enumerate(batch.data):
                indices = plan[len(samples)].indices.tolist()
                columns = {name: values[number] for name, values in batch.columns.items()}
                samples.append(Sample(read_stamps(clip), indices, int(batch.rows[number]), columns))
    return samples


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    page, results = ModuleType("docs_page"), {}
    with contextlib.chdir(tmp_path_factory.mktemp("data_sets")):
        run_python(blocks_of(PAGE)[0], page)
        for title, block in recipes().items():
            if not block.needs_torch or HAS_TORCH:
                run_python(block, page)
                results[title] = Loaded(load(page.plan), dict(page.__dict__))
    return results


def test_each_recipe_is_short_and_checked() -> None:
    found = recipes()
    assert list(found) == list(LABELS)
    for title, block in found.items():
        assert len([line for line in block.code.splitlines() if line]) <= _LINES, title


@pytest.mark.parametrize("title", [title for title, labels in LABELS.items() if labels])
def test_a_recipe_gives_each_video_once_with_its_frames_and_label(title: str, loaded: dict[str, Loaded]) -> None:
    if title not in loaded:
        pytest.skip("needs torch")
    labels, found = {}, loaded[title]
    for sample in found.samples:
        video = sample.stamps[0] // 100
        assert sample.stamps == [100 * video + index for index in sample.indices]
        assert sample.indices == sorted(set(sample.indices))
        assert video not in labels, "twice"
        labels[video] = int(sample.columns["label"] if sample.columns else found.names["labels"][sample.row])
    assert labels == dict(enumerate(LABELS[title]))


def test_kinetics_lists_the_clip_that_is_missing(loaded: dict[str, Loaded]) -> None:
    failures = loaded["Kinetics"].names["listed"].failures
    assert [(Path(source).name, error) for source, error, _ in failures] == [("gone_000005_000015.mp4", "MissingMedia")]


def test_ava_gives_each_person_with_frames_around_the_second_its_box_and_all_its_actions(
    loaded: dict[str, Loaded],
) -> None:
    seen = []
    for sample in loaded["AVA"].samples:
        video, first = divmod(sample.stamps[0], 100)
        assert sample.stamps == [100 * video + first + step for step in range(8)]
        box = tuple(np.asarray(sample.columns["box"]).tolist())
        seen.append((video, (first + 4) / 10 + 900, box, np.flatnonzero(sample.columns["actions"]).tolist()))
    standing, other = (0.1, 0.2, 0.5, 0.9), (0.4, 0.1, 0.8, 1.0)
    people = [(video, 902.0, standing, [12, 80 - video]) for video in range(3)]
    assert sorted(seen) == sorted([*people, (1, 903.0, other, [17])])


def test_the_slow_path_has_frames_of_the_fast_one(loaded: dict[str, Loaded]) -> None:
    if not HAS_TORCH:
        pytest.skip("needs torch")
    names = loaded["PyTorchVideo and PySlowFast"].names
    fast, slow = (read_stamps(np.asarray(names[name])[0]) for name in ("fast", "slow"))
    assert len(fast) == 32
    assert slow == [fast[index] for index in (0, 4, 8, 13, 17, 22, 26, 31)]
