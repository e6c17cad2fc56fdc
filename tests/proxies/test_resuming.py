"""Runs that are interrupted, killed, or meet: the next one continues, and gives what one run gives."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.catalog import read_proxy_table
from framefeed.encode import ProxyWriter
from framefeed.proxies import _estimate, _folder, _make_proxies, _making
from framefeed.testing import ClipSpec, write_clip
from tests.decode.forks import Child, result_of_child
from tests.proxies.originals import PLAIN, SIDE, files_in, fill, make, reason_of, rows_of, scan

NAMES = ("plain.mp4", "variable.mp4", "still.jpg", "alpha.png")
JOURNAL = ".proxies.jsonl"
FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> ff.Catalog:
    return scan(fill(tmp_path_factory.mktemp("resuming") / "in", NAMES))


@pytest.fixture(scope="module")
def whole(catalog: ff.Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run that nothing interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_estimate, "_time_clips", lambda source, index, _: index.stream.width * 1e-3)
        out = tmp_path_factory.mktemp("whole") / "out"
        make(catalog, out)
    return out


def contents_of(out: Path) -> dict[str, Any]:
    """All that a run leaves: bytes of the proxies, and the table without what a clock said and when it was."""
    files: dict[str, Any] = {name: (out / name).read_bytes() for name in files_in(out) if name != "proxies.parquet"}
    table = read_proxy_table(str(out))
    rows = table.rows.drop_columns(["seconds", "row"]).to_pylist()
    return {**files, "table": rows, "settings": dict(table.settings)}


def work_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the originals of which a proxy is made."""
    made, make_proxy = list[str](), _making.make_proxy

    def watch(source: Any, *words: Any) -> Any:
        made.append(Path(source.name).name)
        return make_proxy(source, *words)

    monkeypatch.setattr(_make_proxies, "make_proxy", watch)
    return made


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> None:
    """Let a run end before it makes its next proxy."""
    count, make_proxy = [0], _making.make_proxy

    def stop(*words: Any) -> Any:
        count[0] += 1
        if count[0] > after:
            raise error
        return make_proxy(*words)

    monkeypatch.setattr(_make_proxies, "make_proxy", stop)


@pytest.mark.parametrize("after", range(3))
def test_a_run_goes_on_where_the_last_one_was_interrupted(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupt(patch, after, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            make(catalog, out)
    assert len([name for name in files_in(out) if name != JOURNAL]) == after
    with pytest.raises(ff.MissingMedia, match="continues an interrupted run"):
        catalog.with_proxies(out)
    made = work_of(monkeypatch)
    make(catalog, out)
    assert len(made) == 3 - after
    assert contents_of(out) == contents_of(whole)


@FORKS
@pytest.mark.parametrize("at", [0, 30])
def test_a_run_that_was_killed_leaves_whole_files_alone(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    out = tmp_path / "out"

    def work() -> str:
        count, write = [0], ProxyWriter.write

        def die(writer: Any, picture: Any) -> None:
            # Samples are made in another folder.
            count[0] += str(out) in writer._path
            if count[0] > at:
                os.kill(os.getpid(), signal.SIGKILL)
            write(writer, picture)

        monkeypatch.setattr(ProxyWriter, "write", die)
        make(catalog, out)
        return "not killed"

    assert Child(work).report() == ""
    monkeypatch.setattr(_make_proxies, "_IN_FLIGHT_PER_WORKER", 4)
    left = files_in(out)
    assert len([name for name in left if name.startswith(".framefeed-")]) == 1
    for name in left - {JOURNAL}:
        if not name.startswith(".framefeed-"):
            assert (out / name).read_bytes() == (whole / name).read_bytes()
    make(catalog, out)
    assert contents_of(out) == contents_of(whole)


@FORKS
def test_a_run_that_was_killed_between_a_file_and_its_line_goes_on(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def work() -> str:
        monkeypatch.setattr(_folder.ProxyFolder, "add", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        make(catalog, out)
        return "not killed"

    assert Child(work).report() == ""
    assert len(files_in(out)) == 2
    make(catalog, out)
    assert contents_of(out) == contents_of(whole)


def test_any_number_of_workers_gives_the_same(catalog: ff.Catalog, whole: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        make(catalog, tmp_path / str(workers), workers=workers)
        assert contents_of(tmp_path / str(workers)) == contents_of(whole)


def test_a_finished_run_has_nothing_to_do(catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.copytree(whole, tmp_path / "out")
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in files_in(whole) - {"proxies.parquet"}}
    made = work_of(monkeypatch)
    monkeypatch.setattr(_estimate, "_sample_file", None)
    small = make(catalog, tmp_path / "out")
    assert made == []
    assert contents_of(tmp_path / "out") == contents_of(whole)
    assert before == {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in before}
    assert len(small) == len(NAMES)


def test_new_files_are_added_and_others_kept(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = fill(tmp_path / "in", NAMES), tmp_path / "out"
    make(scan(folder), out)
    before = contents_of(out)
    (folder / "deeper").mkdir()
    write_clip(folder / "deeper" / "new.mp4", replace(PLAIN, seed=3))
    (folder / "still.jpg").unlink()
    made = work_of(monkeypatch)
    more = scan(folder)
    small = make(more, out)
    assert made == ["new.mp4"]
    after = contents_of(out)
    assert {name: after[name] for name in before if name.endswith((".mp4", ".jpg"))} == {
        name: before[name] for name in before if name.endswith((".mp4", ".jpg"))
    }
    assert after["deeper/new.mp4"]
    # The row of a file that is gone is kept, for catalogs that have it.
    assert set(rows_of(out)) == {*NAMES, "new.mp4"}
    assert len(small) == len(NAMES)
    assert len(catalog) == len(NAMES)


@pytest.mark.parametrize("options", [{"short_side": 64}, {"gop": 4}])
def test_other_settings_make_all_anew(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    shutil.copytree(whole, tmp_path / "out")
    made = work_of(monkeypatch)
    with pytest.raises(
        ff.UsageError, match=r"has proxies of (short_side|gop)=.*choose another folder, or .*resume=False"
    ):
        make(catalog, tmp_path / "out", **options)
    assert contents_of(tmp_path / "out") == contents_of(whole)
    make(catalog, tmp_path / "out", resume=False, **options)
    assert len(made) == 3
    make(catalog, tmp_path / "fresh", **options)
    assert contents_of(tmp_path / "out") == contents_of(tmp_path / "fresh")
    settings = {"short_side": SIDE, "gop": 8, **options}
    assert {name: read_proxy_table(str(tmp_path / "out")).settings[name] for name in settings} == settings


def test_originals_that_have_moved_keep_their_proxies(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "out")
    shutil.copytree(Path(str(catalog[0].source)).parent, tmp_path / "elsewhere" / "in")
    made = work_of(monkeypatch)
    small = make(scan(tmp_path / "elsewhere" / "in"), tmp_path / "out")
    assert made == []
    assert set(contents_of(tmp_path / "out")) == set(contents_of(whole))
    assert len(read_proxy_table(str(tmp_path / "out")).rows) == len(small)


def test_a_run_that_does_not_resume_leaves_no_proxy_of_the_one_before(
    catalog: ff.Catalog, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "out")
    (tmp_path / "out" / "own.mp4").write_bytes(b"mine")
    make(catalog[:1], tmp_path / "out", resume=False)
    rows = read_proxy_table(str(tmp_path / "out")).rows["proxy"].to_pylist()
    left = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*4")}
    assert left == {"own.mp4", *(path for path in rows if path)}


def test_a_run_need_not_resume(catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.copytree(whole, tmp_path / "out")
    made = work_of(monkeypatch)
    make(catalog, tmp_path / "out", resume=False)
    assert sorted(made) == sorted(name for name in NAMES if name != "alpha.png")
    assert contents_of(tmp_path / "out") == contents_of(whole)


# --- journals and tables that are torn or damaged ---------------------------------------------------------


def leave_journal(catalog: ff.Catalog, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was interrupted after two files, and its journal."""
    with monkeypatch.context() as patch:
        interrupt(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            make(catalog, out)
    return out / JOURNAL


def cut(data: bytes) -> bytes:
    return data[:-40]


def lose_all(data: bytes) -> bytes:
    return b""


def spoil_middle(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[2] = b"\xff\xfe" + lines[2][2:]
    return b"".join(lines)


def spoil_head(data: bytes) -> bytes:
    return b"[]\n" + data


def spoil_index(data: bytes) -> bytes:
    """Another letter in the packed index of each row."""
    lines = [json.loads(line) for line in data.splitlines()]
    for row in lines:
        if row.get("row"):
            middle = len(row["row"]) // 2
            row["row"] = row["row"][:middle] + ("A" if row["row"][middle] != "A" else "B") + row["row"][middle + 1 :]
    return b"".join(json.dumps(row).encode() + b"\n" for row in lines)


def spoil_types(data: bytes) -> bytes:
    lines = [json.loads(line) for line in data.splitlines()]
    for row in lines:
        if "bytes" in row:
            row["proxy_bytes"] = "many"
    return b"".join(json.dumps(row).encode() + b"\n" for row in lines)


def point_elsewhere(data: bytes) -> bytes:
    """Rows that name the proxy of another."""
    lines = [json.loads(line) for line in data.splitlines()]
    rows = [row for row in lines if row.get("proxy")]
    for row, name in zip(rows, [each["proxy"] for each in reversed(rows)], strict=True):
        row["proxy"] = name
    return b"".join(json.dumps(row).encode() + b"\n" for row in lines)


@pytest.mark.parametrize("spoil", [cut, lose_all, spoil_middle, spoil_head, spoil_index, spoil_types, point_elsewhere])
def test_a_journal_that_is_torn_or_damaged_loses_lines_and_no_more(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    journal = leave_journal(catalog, tmp_path / "out", monkeypatch)
    journal.write_bytes(spoil(journal.read_bytes()))
    make(catalog, tmp_path / "out")
    assert contents_of(tmp_path / "out") == contents_of(whole)


@pytest.mark.parametrize("size", [0, 100, -30])
def test_a_damaged_table_is_made_again_from_files_that_are_whole(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, size: int
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    table = out / "proxies.parquet"
    table.write_bytes(table.read_bytes()[:size])
    with pytest.raises(ff.UnreadableMedia, match=r"not readable as a table of proxies.*make them again"):
        catalog.with_proxies(out)
    make(catalog, out)
    assert contents_of(out) == contents_of(whole)


def test_a_table_of_another_kind_is_refused(catalog: ff.Catalog, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    catalog.to_parquet(tmp_path / "out" / "proxies.parquet")
    with pytest.raises(ff.UnreadableMedia, match="not readable as a table of proxies"):
        catalog.with_proxies(tmp_path / "out")


# --- proxies that are another file now --------------------------------------------------------------------


def spoil_proxy(out: Path, how: str) -> None:
    path, other = out / "plain.mp4", out / "variable.mp4"
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "swapped":
        path.write_bytes(other.read_bytes())
    elif how == "swapped for one of its size":
        path.write_bytes((other.read_bytes() + bytes(len(data)))[: len(data)])
    elif how == "a folder":
        path.unlink()
        path.mkdir()


SPOILT = ("gone", "cut", "swapped", "swapped for one of its size")


@pytest.mark.parametrize("how", SPOILT)
def test_a_proxy_that_is_another_file_now_is_never_read_and_made_again(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    small = catalog.with_proxies(out)
    spoil_proxy(out, how)
    expected = ff.MissingMedia if how == "gone" else ff.StaleSource
    row = next(row for row in range(len(small)) if str(small[row].source).endswith("plain.mp4"))
    plan = ff.plan_clips(small[[row]], ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=1, workers=0) as loader, pytest.raises(expected, match=r"out/plain\.mp4"):
        next(iter(loader))
    with pytest.raises(expected), ff.VideoDecoder(small[row], size=(48, 64)) as decoder:
        decoder[:]
    made = work_of(monkeypatch)
    make(catalog, out)
    assert made == ["plain.mp4"]
    assert contents_of(out) == contents_of(whole)


def test_a_copied_folder_is_as_good(catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.copytree(whole, tmp_path / "copy", copy_function=shutil.copyfile)
    small = catalog.with_proxies(tmp_path / "copy")
    plan = ff.plan_clips(small, ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
        assert all(batch.ok.all() for batch in loader)
    made = work_of(monkeypatch)
    make(catalog, tmp_path / "copy")
    assert made == []


# --- originals that are another file now ------------------------------------------------------------------


def test_an_original_that_changed_since_it_was_scanned_is_tried_again(tmp_path: Path) -> None:
    folder, out = fill(tmp_path / "in", ["plain.mp4", "variable.mp4", "still.jpg"]), tmp_path / "out"
    catalog = scan(folder)
    write_clip(folder / "plain.mp4", replace(PLAIN, seed=5, num_frames=30))
    (folder / "still.jpg").unlink()
    small = make(catalog, out)
    assert reason_of(out, "plain.mp4").startswith("cannot be read: ")
    assert "has changed since it was indexed" in reason_of(out, "plain.mp4")
    assert reason_of(out, "still.jpg").startswith("cannot be read: ")
    assert "no such file" in reason_of(out, "still.jpg")
    assert rows_of(out)["variable.mp4"]["proxy"] == "variable.mp4"
    with pytest.raises(ff.StaleSource), ff.VideoDecoder(small[0]) as decoder:
        decoder[:]
    fill(folder, ["plain.mp4", "still.jpg"])
    make(catalog, out)
    assert {name: row["reason"] for name, row in rows_of(out).items()} == dict.fromkeys(rows_of(out))


def test_an_original_that_changes_while_it_is_read_gets_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = fill(tmp_path / "in", ["plain.mp4"]), tmp_path / "out"
    catalog = scan(folder)
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))
    check = _making._Video._check

    def change(video: Any) -> Any:
        write_clip(folder / "new.mp4", replace(PLAIN, seed=5))
        (folder / "new.mp4").rename(folder / "plain.mp4")
        return check(video)

    monkeypatch.setattr(_making._Video, "_check", change)
    make(catalog, out)
    assert "has changed since it was indexed" in reason_of(out, "plain.mp4")
    assert files_in(out) == {"proxies.parquet"}


def test_a_changed_original_that_was_scanned_again_needs_a_new_proxy(tmp_path: Path) -> None:
    folder, out = fill(tmp_path / "in", ["plain.mp4", "variable.mp4"]), tmp_path / "out"
    before = scan(folder)
    make(before, out)
    write_clip(folder / "plain.mp4", replace(PLAIN, seed=5, num_frames=30))
    after = scan(folder)
    with pytest.raises(
        ff.StaleSource, match=r"in/plain\.mp4: has changed since its proxy was made: make .* keeps the others"
    ):
        after.with_proxies(out)
    small = make(after, out)
    assert files_in(out) == {"plain.mp4", "variable.mp4", "proxies.parquet"}
    assert [len(entry.frame_index) for entry in small] == [30, 24]  # type: ignore[arg-type]
    with pytest.raises(ff.StaleSource, match="has changed since its proxy was made"):
        before.with_proxies(out)


def test_a_file_that_is_not_in_the_table_is_read_itself_with_a_warning(tmp_path: Path) -> None:
    folder, out = fill(tmp_path / "in", ["plain.mp4"]), tmp_path / "out"
    make(scan(folder), out)
    fill(folder, ["variable.mp4"])
    with pytest.warns(UserWarning, match=r"1 of 2 rows are of files that .*out does not know.*variable\.mp4"):
        small = scan(folder).with_proxies(out)
    assert [Path(str(entry.source)).parent.name for entry in small] == ["out", "in"]


def test_a_folder_without_a_table_is_named(catalog: ff.Catalog, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ff.MissingMedia, match=r"has no proxies.*ff\.make_proxies"):
            catalog.with_proxies(folder)
    for wrong in (5, "a\0b", "s3://bucket/small"):
        with pytest.raises(ff.UsageError, match="folder"):
            catalog.with_proxies(wrong)  # type: ignore[arg-type]


# --- disks and other runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sample", "still", "journal", "table", "folder"])
def test_a_full_disk_is_said_and_the_next_run_goes_on(
    catalog: ff.Catalog, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    out = tmp_path / "out"

    def refuse(path: Any = "", *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch:
        if target == "sample":
            patch.setattr("framefeed.encode._muxing.replacing", refuse)
        elif target == "still":
            patch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))
            patch.setattr(_making, "replacing", refuse)
        elif target == "table":
            patch.setattr("framefeed.catalog._proxies.replacing", refuse)
        elif target == "folder":
            patch.setattr("framefeed.proxies._folder.os.makedirs", refuse)
        else:
            patch.setattr(_folder, "replacing", refuse)
        with pytest.raises(ff.UsageError, match=r"cannot write .*No space left.*make room on the disk"):
            make(catalog, out)
    if out.exists():
        assert "proxies.parquet" not in files_in(out)
        for name in files_in(out) - {JOURNAL}:
            assert (out / name).read_bytes() == (whole / name).read_bytes()
    make(catalog, out)
    assert contents_of(out) == contents_of(whole)


@pytest.mark.slow
@FORKS
def test_a_disk_that_fills_while_proxies_are_written(catalog: ff.Catalog, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def make_on_full_disks() -> list[Any]:
        """Make proxies with room for no file, then for some, then for all."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the limit kills instead of failing the write
        reports: list[Any] = []
        for limit in (3_000, 12_000, resource.RLIM_INFINITY):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                make(catalog, out)
                error = ""
            except ff.FramefeedError as caught:
                error = f"{type(caught).__name__}: {caught}"
            reports.append([error, sorted(files_in(out))])
        return reports

    *full, enough = result_of_child(make_on_full_disks)
    for error, left in full:
        assert error.startswith("UsageError: cannot write")
        assert "make room on the disk" in error
        assert "proxies.parquet" not in left
        assert not any(name.startswith(".framefeed-") for name in left)
    assert enough[0] == ""
    assert contents_of(out) == contents_of(whole)


@FORKS
def test_one_run_at_a_time_writes_to_a_folder(catalog: ff.Catalog, tmp_path: Path, monkeypatch: Any) -> None:
    out = tmp_path / "out"
    said: list[str] = []
    make_proxy = _making.make_proxy

    def meet(*words: Any) -> Any:
        if not said:

            def work() -> str:
                monkeypatch.setattr(_make_proxies, "make_proxy", make_proxy)
                try:
                    make(catalog, out)
                except ff.UsageError as error:
                    return str(error)
                return "both"

            said.append(Child(work).report())
        return make_proxy(*words)

    monkeypatch.setattr(_make_proxies, "make_proxy", meet)
    make(catalog, out)
    assert len(said) == 1
    assert "another run of make_proxies is writing to this folder: wait until it has ended" in said[0]
    assert len(rows_of(out)) == len(NAMES)


def test_an_error_unlocks_the_folder(catalog: ff.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch, 1, MemoryError())
        with pytest.raises(ff.ResourceExhausted):
            make(catalog, tmp_path / "out")
    make(catalog, tmp_path / "out")
    assert JOURNAL not in files_in(tmp_path / "out")


def test_a_failed_file_is_tried_again_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = fill(tmp_path / "in", ["plain.mp4", "variable.mp4", "alpha.png"]), tmp_path / "out"
    catalog = scan(folder)
    make_proxy = _making.make_proxy

    def fail(source: Any, *words: Any) -> Any:
        if source.name.endswith("plain.mp4"):
            raise ff.UnreadableMedia(f"{source.name}: cannot be read: the disk is away")
        return make_proxy(source, *words)

    with monkeypatch.context() as patch:
        patch.setattr(_make_proxies, "make_proxy", fail)
        make(catalog, out)
    assert reason_of(out, "plain.mp4").startswith("cannot be read: ")
    made = work_of(monkeypatch)
    make(catalog, out)
    assert made == ["plain.mp4"]
    assert rows_of(out)["plain.mp4"]["proxy"] == "plain.mp4"


def test_a_small_video_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_clip(tmp_path / "in" / "one.mp4", ClipSpec(num_frames=1, height=240, width=320, b_frames=0))
    small = make(scan(tmp_path / "in"), tmp_path / "out")
    assert len(small) == 1
    assert len(rows_of(tmp_path / "out")) == 1


def test_a_scan_does_not_take_a_catalog_of_proxies_for_its_own(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg"])
    saved = tmp_path / "small.parquet"
    make(scan(folder), tmp_path / "out").to_parquet(saved)
    before = saved.read_bytes()
    for names in ([], ["variable.mp4"]):
        fill(folder, names)
        with pytest.raises(ff.UsageError, match=r"small\.parquet is a catalog of proxies.*ff\.make_proxies"):
            scan(folder, out=saved)
    assert saved.read_bytes() == before
    assert len(scan(folder, out=saved, resume=False)) == 3
