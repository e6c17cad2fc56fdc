"""The work folder: what it keeps, refuses and removes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from framefeed.errors import UsageError
from framefeed.transcode._folder import WorkFolder, name_work_folder
from framefeed.transcode._results import FrameFault
from framefeed.transcode._targets import SegmentRecord, hash_file

IDENTITY = {"source": ["path", "clip.mp4"], "fps": None}


def fill(out: Path, numbers: range, *, keep: bool = True) -> Path:
    """Make a folder with finished segments, as an interrupted run leaves it."""
    with WorkFolder(str(out), IDENTITY, resume=True) as folder:
        for number in numbers:
            name = f"{number:06d}-0.nut"
            path = Path(folder.path, name)
            path.write_bytes(bytes([number]) * 100)
            fault = FrameFault(number, float("nan"), "function", "ValueError: no", "skipped")
            folder.add(SegmentRecord(number, 9, 1, (4, 6), 0, {name: hash_file(str(path))}, (fault,)))
        Path(folder.path, "000099-0.nut").touch()
        Path(folder.path, ".framefeed-0123456789abcdef.tmp").touch()
    return Path(folder.path)


def reopen(out: Path, *, resume: bool = True, identity: object = IDENTITY) -> list[int]:
    with WorkFolder(str(out), identity, resume=resume) as folder:  # type: ignore[arg-type]
        return sorted(folder.records)


def test_finished_segments_stay_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    path = fill(out, range(3))
    assert len(os.listdir(path)) == 7
    with WorkFolder(str(out), IDENTITY, resume=True) as folder:
        assert sorted(folder.records) == [0, 1, 2]
        assert folder.records[2].faults[0].reason == "ValueError: no"
        assert Path(folder.find(folder.records[1], 0)).read_bytes() == b"\1" * 100
        folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_without_a_finished_segment_nothing_stays(tmp_path: Path) -> None:
    fill(tmp_path / "out.mp4", range(0))
    assert list(tmp_path.iterdir()) == []


def test_another_identity_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    fill(out, range(3))
    assert reopen(out, identity={**IDENTITY, "fps": "25"}) == []
    fill(out, range(3))
    assert reopen(out, resume=False) == []


def test_a_killed_run_leaves_no_segment_of_the_run_before(tmp_path: Path) -> None:
    out, copied, other = tmp_path / "out.mp4", tmp_path / "copied.mp4", {**IDENTITY, "fps": "25"}
    fill(out, range(3))
    with WorkFolder(str(out), other, resume=True) as folder:
        # As a process leaves it that is killed now.
        shutil.copytree(folder.path, name_work_folder(str(copied)))
    assert reopen(copied, identity=other) == []


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "record", "text", "number", "renamed", "outside"])
def test_damaged_segments_are_made_again(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out.mp4"
    path = fill(out, range(3))
    video, record = path / "000001-0.nut", path / "000001.json"
    values = json.loads(record.read_text())
    if damage == "cut":
        video.write_bytes(b"\1" * 50)
    elif damage == "changed":
        video.write_bytes(b"\2" * 100)
    elif damage == "missing":
        video.unlink()
    elif damage == "record":
        record.write_text("{}")
    elif damage == "text":
        record.write_text('{"number": 1')
    elif damage == "number":
        record.write_text(json.dumps({**values, "number": 2}))
    elif damage == "renamed":
        record.rename(path / "000005.json")
    else:
        (tmp_path / "other").write_bytes(b"\1" * 100)
        record.write_text(json.dumps({**values, "files": {"../other": values["files"]["000001-0.nut"]}}))
    assert reopen(out) == [0, 2]
    assert not video.exists()
    assert not record.exists()
    assert not (path / "000005.json").exists()


def test_a_damaged_identity_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    for text in ("", "[[[", "[" * 100_000, "null"):
        (fill(out, range(2)) / "identity.json").write_text(text)
        assert reopen(out) == []


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    path = fill(out, range(2))
    (path / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"notes\.txt.*move them away"):
        reopen(out)
    (path / "notes.txt").unlink()
    assert reopen(out) == [0, 1]


def test_one_run_at_a_time(tmp_path: Path) -> None:
    out = str(tmp_path / "out.mp4")
    with (
        WorkFolder(out, IDENTITY, resume=True),
        pytest.raises(UsageError, match="another run of map_video is writing this output: wait"),
    ):
        WorkFolder(out, IDENTITY, resume=True)
    assert reopen(tmp_path / "out.mp4") == []


def test_names_of_any_length_and_script_have_folders() -> None:
    names = [name_work_folder(f"/x/{name}.mp4") for name in ("a" * 250, "a" * 249, "視" * 80, "b\udcff", "{picture}")]
    assert len(set(names)) == len(names)
    assert all(len(os.fsencode(os.path.basename(name))) <= 255 for name in names)
    assert all(os.path.basename(name).startswith(".") for name in names)
