"""Plans over catalogs of real files, saved and unsaved."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow.compute as pc
import pytest

from framefeed.catalog import Catalog
from framefeed.errors import MissingMedia, UsageError
from framefeed.plan._plan_clips import plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._rules import Dense, Uniform
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("videos")
    for label, lengths in {"cat": (5, 9), "dog": (7,)}.items():
        (root / label).mkdir()
        for number, length in enumerate(lengths):
            write_clip(root / label / f"{number}.mp4", ClipSpec(num_frames=length))
    (root / "dog" / "notes.mp4").write_text("no video")
    return root


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    return scan(folder, label_from="parent", workers=0)


def test_failed_files_are_excluded_and_labels_are_codes(catalog: Catalog) -> None:
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        plan = plan_clips(catalog, Uniform(3), seed=1, columns=["label"])
    assert [Path(source).name for source, _ in plan.excluded] == ["notes.mp4"]
    assert plan.excluded[0].error.startswith("UnreadableMedia: ")
    assert plan.classes == ["cat", "dog"]
    for position in range(len(plan)):
        folder_name = Path(plan[position].source).parent.name
        assert plan.classes[plan.columns_at(position)["label"]] == folder_name
    assert plan.describe().excluded_rows == 1


def test_a_plan_travels_as_data_or_as_the_name_of_its_catalog(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="left out"):
        unsaved = plan_clips(catalog, Dense(3, fps=10), seed=1)
    catalog.to_parquet(tmp_path / "cat.parquet")
    with pytest.warns(UserWarning, match="left out"):
        saved = plan_clips(Catalog.open(tmp_path / "cat.parquet"), Dense(3, fps=10), seed=1)
    assert list(pickle.loads(pickle.dumps(unsaved))) == list(unsaved)
    text = pickle.dumps(saved)
    assert len(text) < 2000
    copy = pickle.loads(text)
    assert [r.indices.tolist() for r in copy] == [r.indices.tolist() for r in unsaved]
    assert copy.fingerprint == saved.fingerprint == unsaved.fingerprint


def test_windows_and_columns_of_a_manifest(folder: Path, tmp_path: Path) -> None:
    lines = ["source,start_seconds,end_seconds,split", *(f"{folder}/cat/{i}.mp4,0.0{8 * i},,train" for i in (0, 1))]
    manifest = tmp_path / "list.csv"
    manifest.write_text("\n".join(lines))
    listed = scan(manifest, workers=0)
    plan = plan_clips(
        listed, Uniform(2), seed=1, shuffle=False, within=("start_seconds", "end_seconds"), columns=["split"]
    )
    assert [request.indices.tolist() for request in plan] == [[1, 3], [3, 7]]
    assert plan.columns_at(0) == {"split": "train"}
    with pytest.raises(UsageError, match="'split'"):
        plan_clips(listed, Uniform(2), seed=1, within=("split", "end_seconds"))


def test_labels_that_are_missing_are_never_made_up(folder: Path, tmp_path: Path) -> None:
    catalog = scan(folder)
    with pytest.warns(UserWarning, match="left out"):
        plan_clips(catalog, Uniform(1), seed=0)
    with pytest.raises(UsageError, match=r"found none .*label_from='parent'.*columns=\{'label': \.\.\.\}"):
        plan_clips(catalog, Uniform(1), seed=0, columns=("label",))
    videos = sorted(folder.glob("**/*.mp4"))
    listed = tmp_path / "some.csv"
    listed.write_text("path,label,breed\n" + "".join(f"{video},{'a' * (video == videos[0])},\n" for video in videos))
    some = scan(listed)
    readable = some.without(some.errors)
    with pytest.raises(UsageError, match=r"found only 1 .*is_valid"):
        plan_clips(readable, Uniform(1), seed=0, columns=("label",))
    labelled = readable.filter(pc.field("label").is_valid())
    assert plan_clips(labelled, Uniform(1), seed=0, columns=("label",)).columns_at(0) == {"label": 0}


def test_a_failed_row_needs_no_label(folder: Path, tmp_path: Path) -> None:
    listed = tmp_path / "some.csv"
    good = sorted(folder.glob("**/*.mp4"))[0]
    listed.write_text(f"path,label\n{good},a\n{tmp_path / 'missing.mp4'},\n")
    catalog = scan(listed)
    with pytest.warns(UserWarning, match="1 of 2 rows are left out"):
        assert len(plan_clips(catalog, Uniform(1), seed=0, columns=("label",))) == 1


def test_a_slice_of_a_plan_is_a_list_of_requests(folder: Path) -> None:
    catalog = scan(folder, label_from="parent")
    good = catalog.without(catalog.errors)
    plan = plan_clips(good, Dense(2, stride=1), seed=3, clips_per_video=2, size=(20, 20))
    every = list(plan)
    assert len(every) == 6
    for part in (slice(1, 4), slice(None, None, -2), slice(-2, 99), slice(4, 2)):
        assert plan[part] == every[part]
    again = plan_requests(plan[1:4])
    assert [(request.source, request.indices.tolist()) for request in again] == [
        (request.source, request.indices.tolist()) for request in every[1:4]
    ]
    assert again.clip_shape == plan.clip_shape


def test_the_path_of_a_dangling_link_is_said_once(tmp_path: Path) -> None:
    link = tmp_path / "link.mp4"
    link.symlink_to("nowhere.mp4")
    catalog = scan(tmp_path, workers=0)
    reason = "no such file: it is a link to nowhere.mp4, which does not exist"
    assert catalog.failures == [(str(link), "MissingMedia", f"{link}: {reason}")]
    with pytest.raises(
        MissingMedia, match=r"no such file or folder: it is a link to nowhere\.mp4, which does not exist$"
    ):
        scan(link)
    with pytest.warns(UserWarning, match=rf"The first row is .* \(MissingMedia: {reason}\)") as caught:
        plan_clips(catalog, Uniform(3), seed=1)
    assert str(caught[0].message).count(str(link)) == 1
