"""Catalogs in other processes and other places: pickles, roots, moves."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image

from framefeed._values import Limits
from framefeed.catalog import _catalog
from framefeed.catalog._assembly import ListedRows, assemble_rows
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._survey import SurveyOptions
from framefeed.errors import MissingMedia, StaleSource, UsageError
from framefeed.scanning import scan
from tests.catalog.synthetic import catalog, finding, frame_index, names, same


def saved(folder: Path, count: int = 6) -> Catalog:
    made = catalog(names(count), failed=[1], labels=[number % 3 for number in range(count)], take=range(count))
    made.to_parquet(folder / "cat.parquet")
    return Catalog.open(folder / "cat.parquet")


def there_and_back(value: Catalog) -> Catalog:
    copy = pickle.loads(pickle.dumps(value))
    assert isinstance(copy, Catalog)
    return copy


def assert_same(one: Catalog, other: Catalog) -> None:
    assert one.table.equals(other.table)
    assert one.classes == other.classes
    assert one.fingerprint == other.fingerprint
    assert [one.source(row) for row in range(len(one))] == [other.source(row) for row in range(len(other))]
    for row in one.usable_rows.tolist():
        assert same(one.frame_index(row), other.frame_index(row))


def test_a_saved_catalog_travels_as_its_path(tmp_path: Path) -> None:
    whole = saved(tmp_path, 100)
    view = whole.filter(pc.field("label") == 2)
    assert len(pickle.dumps(whole)) < 500
    assert_same(there_and_back(whole), whole)
    assert_same(there_and_back(view), view)
    assert_same(there_and_back(view.take([7, 3])), view.take([7, 3]))
    assert_same(there_and_back(there_and_back(view)), view)


def test_an_unsaved_catalog_travels_as_data() -> None:
    whole = catalog(names(6), failed=[1], labels=[*"abcabc"])
    assert_same(there_and_back(whole), whole)
    assert_same(there_and_back(whole.take([4, 1, 0])), whole.take([4, 1, 0]))


def test_what_a_copy_saves_is_what_the_catalog_saves(tmp_path: Path) -> None:
    """A later scan to the file compares the settings in it, and opens all files again if they differ."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    made = scan(tmp_path, limits=Limits(max_members=2**24), verify="ends", workers=0)
    there_and_back(made).to_parquet(tmp_path / "copy.parquet")
    made.to_parquet(tmp_path / "made.parquet")
    for ending in (".parquet", ".frames.arrow"):
        assert (tmp_path / f"copy{ending}").read_bytes() == (tmp_path / f"made{ending}").read_bytes()


def test_of_a_view_only_its_rows_travel() -> None:
    whole = catalog(names(100))
    assert len(pickle.dumps(whole.take([5]))) < len(pickle.dumps(whole)) / 4


def test_a_large_unsaved_catalog_is_refused_until_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_catalog, "MAX_PICKLED_BYTES", 10_000)
    whole = catalog(names(60))
    with pytest.raises(UsageError, match=r"to_parquet\(path\)"):
        pickle.dumps(whole)
    assert_same(there_and_back(whole.take([0])), whole.take([0]))
    whole.to_parquet(tmp_path / "cat.parquet")
    assert_same(there_and_back(whole), whole)
    assert_same(there_and_back(whole.take([5, 2])), whole.take([5, 2]))


def test_the_limit_is_that_of_the_documentation() -> None:
    assert _catalog.MAX_PICKLED_BYTES == 64_000_000


def test_a_view_that_was_saved_travels_as_its_own_file(tmp_path: Path) -> None:
    view = saved(tmp_path).take([5, 3, 0])
    view.to_parquet(tmp_path / "view.parquet")
    (tmp_path / "cat.parquet").unlink()
    assert_same(there_and_back(view), view)
    assert_same(there_and_back(view.take([2, 0])), view.take([2, 0]))


def test_a_catalog_that_was_written_again_is_stale(tmp_path: Path) -> None:
    sent = pickle.dumps(saved(tmp_path))
    saved(tmp_path, 7)
    with pytest.raises(StaleSource, match=r"has changed.*Catalog\.open"):
        pickle.loads(sent)
    saved(tmp_path, 6)
    assert len(pickle.loads(sent)) == 6, "the same content again is the same catalog"


def test_a_catalog_that_is_gone(tmp_path: Path) -> None:
    sent = pickle.dumps(saved(tmp_path))
    (tmp_path / "cat.frames.arrow").unlink()
    with pytest.raises(StaleSource, match=r"cat\.frames\.arrow"):
        pickle.loads(sent)
    (tmp_path / "cat.parquet").unlink()
    with pytest.raises(MissingMedia, match=r"cat\.parquet"):
        pickle.loads(sent)


def test_entries_travel(tmp_path: Path) -> None:
    for whole in (saved(tmp_path), catalog(names(6))):
        entry = pickle.loads(pickle.dumps(whole[4]))
        assert entry.source == names(6)[4]
        assert same(entry.frame_index, frame_index(10, 4))


def _frames_of(part: Catalog) -> list[int]:
    return [len(part.frame_index(row)) for row in part.usable_rows.tolist()]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.test_all)])
def test_other_processes_read_the_same(tmp_path: Path, method: str) -> None:
    view = saved(tmp_path).take([2, 1, 5])
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(_frames_of, (view,)) == [10, 10]


# --- moving -----------------------------------------------------------------------------------------


def rooted(folder: Path) -> Path:
    """A catalog with two sources below ``folder`` and one elsewhere, saved in it."""
    texts = ["a/1.mp4", "\0dce9/2.mp4", "/elsewhere/3.mp4"]
    made = Catalog(
        assemble_rows(
            ListedRows(pa.array(texts), root=str(folder)),
            [finding(number) for number in range(3)],
            SurveyOptions(),
        )
    )
    made.to_parquet(folder / "cat.parquet")
    return folder / "cat.parquet"


def sources(opened: Catalog) -> list[object]:
    return [opened.source(row) for row in range(len(opened))]


def below(folder: Path) -> list[str]:
    return [f"{folder}/a/1.mp4", f"{folder}/\udce9/2.mp4", "/elsewhere/3.mp4"]


def test_a_catalog_moves_with_its_data(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    rooted(old)
    assert sources(Catalog.open(old / "cat.parquet")) == below(old)
    shutil.move(old, new)
    assert sources(Catalog.open(new / "cat.parquet")) == below(new)
    assert sources(there_and_back(Catalog.open(new / "cat.parquet"))) == below(new)


def test_data_may_lie_elsewhere(tmp_path: Path) -> None:
    opened = Catalog.open(rooted(tmp_path), root=tmp_path / "data")
    assert sources(opened) == below(tmp_path / "data")
    assert sources(there_and_back(opened.take([1]))) == below(tmp_path / "data")[1:2]


def test_a_view_saved_in_another_folder_finds_its_data(tmp_path: Path) -> None:
    data, runs = tmp_path / "old" / "data", tmp_path / "old" / "runs"
    data.mkdir(parents=True)
    runs.mkdir()
    Catalog.open(rooted(data)).take([1, 2, 0]).to_parquet(runs / "part.parquet")
    first, second, third = (Path(name) for name in below(data))
    opened_sources = [Path(str(source)).resolve() for source in sources(Catalog.open(runs / "part.parquet"))]
    assert opened_sources == [second, third, first]
    shutil.move(tmp_path / "old", tmp_path / "new")
    opened_sources = [
        Path(str(source)).resolve() for source in sources(Catalog.open(tmp_path / "new/runs/part.parquet"))
    ]
    assert opened_sources == [Path(str(name).replace("/old/", "/new/")) for name in (second, third, first)]


def test_a_given_root_stays_what_sources_are_relative_to(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    opened = Catalog.open(rooted(tmp_path), root=tmp_path / "data")
    opened.take([0]).to_parquet(tmp_path / "runs" / "part.parquet")
    assert sources(Catalog.open(tmp_path / "runs" / "part.parquet", root="/mnt")) == ["/mnt/a/1.mp4"]
