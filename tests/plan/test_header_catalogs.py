"""Plans over catalogs of headers: of pictures they are those over a full scan; videos are left out, and named once."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from PIL import Image

from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.errors import UsageError
from framefeed.plan import AtIndices, Dense, EpochPlan, EveryFrame, RandomSegments, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest, RandomResizedCrop
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.catalog.synthetic import same
from tests.makers import plan_over
from tests.media.pictures import write_folder
from tests.pictures.made import made

SIZE = (24, 32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of every kind in two classes, animations among them, and three that fail."""
    root = tmp_path_factory.mktemp("pictures")
    for number, (name, data) in enumerate(sorted(made().items())):
        path = root / "ab"[number % 2] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    Image.new("F", (8, 6)).save(root / "a" / "failed.tiff", save_all=True, append_images=[Image.new("F", (8, 6))] * 2)
    (root / "a" / "cut.png").write_bytes(made()["RGB.png"][:20])
    (root / "b" / "text.jpg").write_text("no picture")
    return root


@pytest.fixture(scope="module")
def headers(folder: Path) -> Catalog:
    return scan(folder, depth="header", label_from="parent", workers=0)


@pytest.fixture(scope="module")
def frames(folder: Path) -> Catalog:
    return scan(folder, label_from="parent", workers=0)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pictures, an image sequence's folder apart, two videos and a text."""
    root = tmp_path_factory.mktemp("mixed")
    write_folder(root / "stills", 4)
    for number in range(2):
        write_clip(root / f"{number}.mp4", ClipSpec(num_frames=5 + number, height=48, width=64))
    (root / "text.mp4").write_text("no video")
    return root


def plan_quietly(catalog: Catalog, rule: Any = None, **options: Any) -> EpochPlan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = Uniform(1) if rule is None and "at" not in options else rule
        return plan_over(catalog, rule, **{"seed": 3, "size": SIZE, **options})


def assert_same_plan(one: EpochPlan, other: EpochPlan) -> None:
    assert list(one) == list(other)
    assert len(one) == len(other) > 0
    assert [one.columns_at(position) for position in range(len(one))] == [
        other.columns_at(position) for position in range(len(other))
    ]
    assert (one.fingerprint, one.excluded, one.classes) == (other.fingerprint, other.excluded, other.classes)
    assert one.with_state(other.state_dict()).fingerprint == other.fingerprint


def save(catalog: Catalog, folder: Path) -> Catalog:
    catalog.to_parquet(folder / "cat.parquet")
    assert not (folder / "cat.frames.arrow").exists()
    return Catalog.open(folder / "cat.parquet")


def test_headers_give_the_frame_tables_of_a_full_scan(headers: Catalog, frames: Catalog) -> None:
    assert max(headers.table["num_frames"].drop_null().to_pylist()) > 1, "some headers claim animations"
    assert headers.usable_rows.tolist() == headers.plannable_rows.tolist() == frames.usable_rows.tolist()
    assert headers.num_frames[headers.usable_rows].tolist() == frames.num_frames[frames.usable_rows].tolist()
    for row in range(len(headers)):
        one, other = headers[row].frame_index, frames[row].frame_index
        assert (one is None) == (other is None) == (headers.error(row) is not None)
        assert one is None or same(one, other)
        assert headers.source(row) == frames.source(row)
        if one is None:
            with pytest.raises(UsageError, match=f"row {row} .* has no frame index: /"):
                headers.frame_index(row)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (Uniform(1), {}),
        (Uniform(3), {"clips_per_video": 2, "shuffle": "videos"}),
        (RandomSegments(2), {"crop": RandomResizedCrop(16), "size": None}),
        (EveryFrame(), {"shuffle": False}),
        (Dense(2, stride=1), {"world_size": 3, "rank": 1, "balance": "cost"}),
        (AtIndices([0]), {"unequal": True, "size": None}),
    ],
)
def test_plans_are_those_of_a_full_scan(
    headers: Catalog, frames: Catalog, tmp_path: Path, rule: Any, options: dict[str, Any]
) -> None:
    expected = plan_quietly(frames, rule, columns=["label"], **options)
    described = expected.describe()
    for catalog in (headers, pickle.loads(pickle.dumps(headers)), save(headers, tmp_path)):
        plan = plan_quietly(catalog, rule, columns=["label"], **options)
        assert_same_plan(plan, expected)
        assert_same_plan(pickle.loads(pickle.dumps(plan)), expected)
        assert plan.describe() == described


PARTS: dict[str, Callable[[Catalog], Catalog]] = {
    "a label": lambda catalog: catalog.filter(label="b"),
    "an expression": lambda catalog: catalog.filter(pc.field("width") > 37),
    "a split": lambda catalog: catalog.split({"train": 0.7, "val": 0.3}, seed=1)["train"],
    "rows": lambda catalog: catalog.take([5, 3, 3, 9]),
    "a mask": lambda catalog: catalog[np.arange(len(catalog)) % 3 == 0],
    "without errors": lambda catalog: catalog.without(catalog.errors),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_those_of_a_full_scan(headers: Catalog, frames: Catalog, tmp_path: Path, part: str) -> None:
    select = PARTS[part]
    expected = plan_quietly(select(frames))
    for catalog in (headers, save(headers, tmp_path)):
        assert_same_plan(plan_quietly(select(catalog)), expected)
        assert_same_plan(pickle.loads(pickle.dumps(plan_quietly(select(catalog)))), expected)


def test_another_picture_is_another_fingerprint(folder: Path, headers: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(made()["RGB.png"])
    first = scan(path, depth="header", workers=0).fingerprint
    path.write_bytes(made()["L.png"])
    assert scan(path, depth="header", workers=0).fingerprint != first
    assert headers.take([0, 1]).fingerprint != headers.take([1, 0]).fingerprint


def test_videos_are_left_out_and_named_once(mixed: Path, tmp_path: Path) -> None:
    headers = scan(mixed, depth="header", workers=0)
    for catalog in (headers, save(headers, tmp_path), headers.take([6, 5, 4, 3, 2, 1, 0]).take([6, 5, 4, 3, 2, 1, 0])):
        with pytest.warns(UserWarning, match="with_frame_indexes") as caught:
            plan = plan_clips(catalog, Uniform(1), seed=0)
        (warning,) = caught
        assert "3 of 7 rows are left out" in str(warning.message)
        assert "2 of them need frame indexes (first " in str(warning.message)
        assert [Path(source).name for source, _ in plan.excluded] == ["text.mp4", "0.mp4", "1.mp4"]
        assert all("with_frame_indexes" in error for _, error in plan.excluded[1:])
        assert sorted(Path(request.source).name for request in plan) == [f"img{number}.png" for number in range(4)]
        assert sum(entry.frame_index is not None for entry in catalog) == 4
    ranks = [plan_quietly(headers, balance="cost", world_size=2, rank=rank) for rank in (0, 1)]
    assert len({request.source for plan in ranks for request in plan}) == 4
    everything = plan_quietly(headers.with_frame_indexes(workers=0))
    assert (len(everything), len(everything.excluded)) == (6, 1)
    # Videos are not planned, so a state of one does not fit to the other.
    assert plan.fingerprint != everything.fingerprint


def test_image_sequences_are_left_out_as_videos_are(mixed: Path) -> None:
    catalog = scan([mixed / "stills"], image_folders="video", fps=5, depth="header", workers=0)
    with pytest.raises(UsageError, match="with_frame_indexes"):
        plan_clips(catalog, Uniform(1), seed=0)


def test_videos_alone_are_refused(mixed: Path) -> None:
    catalog = scan(mixed, depth="header", workers=0)
    videos = catalog.filter(kind="video")
    for options in ({"rule": Uniform(1)}, {"at": "width"}):
        with pytest.raises(UsageError, match=r"headers only: plan over catalog\.with_frame_indexes\(\)"):
            plan_clips(videos, seed=0, **options)
    with pytest.warns(UserWarning, match="No rows remain"):
        assert not len(plan_clips(catalog.errors, Uniform(1), seed=0))


def test_missing_frame_tables_of_videos_are_not_taken_for_headers(mixed: Path, tmp_path: Path) -> None:
    scan(mixed, out=tmp_path / "cat.parquet", workers=0)
    expected = plan_quietly(Catalog.open(tmp_path / "cat.parquet").filter(kind="image"))
    (tmp_path / "cat.frames.arrow").unlink()
    catalog = Catalog.open(tmp_path / "cat.parquet")
    with pytest.raises(UsageError, match="put it back"):
        plan_clips(catalog, Uniform(1), seed=0)
    assert_same_plan(plan_quietly(catalog.filter(kind="image")), expected)


def test_frames_from_a_column(mixed: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.csv"
    paths = [*sorted(mixed.glob("stills/*")), mixed / "0.mp4"]
    listed.write_text(
        "path,frame,start,end\n" + "".join(f"{path},{0 if n % 2 else ''},0.5,2\n" for n, path in enumerate(paths))
    )
    plans = [
        plan_quietly(scan(listed, depth=depth, workers=0).filter(kind="image"), size=None, **options)
        for options in ({"rule": None, "at": "frame"}, {"rule": Uniform(1), "within": ("start", "end")})
        for depth in ("header", "frames")
    ]
    assert plans[0].excluded == plans[1].excluded
    assert list(plans[0]) == list(plans[1])
    assert (len(plans[0]), len(plans[2])) == (2, 4)
    with pytest.warns(UserWarning, match=r"3 of 5 rows .* 1 of them need frame indexes"):
        plan_clips(scan(listed, depth="header", workers=0), at="frame", seed=0)


def test_requests_take_entries_as_they_are(headers: Catalog, frames: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.catalog._memory_catalog.survey", None)  # nothing is opened
    rows = headers.usable_rows[:9].tolist()
    plans = [plan_requests([DecodeRequest(source=catalog[row], indices=[0]) for row in rows], size=SIZE)
             for catalog in (headers, frames)]  # fmt: skip
    assert_same_plan(*plans)
    assert same(make_memory_catalog([headers[rows[0]]]).frame_index(0), frames.frame_index(rows[0]))
