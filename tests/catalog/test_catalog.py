"""Catalog: columns, views, classes, splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from framefeed.catalog._catalog import Catalog
from framefeed.catalog._verifying import Failure, Verification
from framefeed.errors import MissingMedia, UsageError
from framefeed.load import LedgerEntry
from tests.catalog.synthetic import catalog, frame_index, names, same

COLUMNS = [
    "source", "kind", "container", "codec", "width", "height", "coded_width", "coded_height", "rotation", "mirrored",
    "pixel_format", "num_frames", "num_damaged_frames", "times_from", "duration_seconds", "average_fps",
    "is_variable_frame_rate", "num_key_frames", "bytes", "mtime_ns", "fingerprint", "label", "error_type", "error",
]  # fmt: skip
"""From docs/reference.md."""


@pytest.fixture(params=["in memory", "saved"])
def five(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    made = catalog(
        names(5), failed=[3], labels=["cat", "dog", None, "ant", "dog"], start=[0.5, None, 1, 2, 3],
        take=[1, 2, 3, None, 5], split=["b", "a", None, "a", "c"], good=[True, False, True, True, None],
    )  # fmt: skip
    if request.param == "saved":
        made.to_parquet(tmp_path / "cat.parquet")
        return Catalog.open(tmp_path / "cat.parquet")
    return made


def test_columns_have_a_fixed_order(five: Catalog) -> None:
    assert five.table.column_names == [*COLUMNS, "changes_size", "start", "take", "split", "good"]
    assert five.table.schema.field("label").type == pa.dictionary(pa.int32(), pa.string())
    assert five.table.column("label").to_pylist() == ["cat", "dog", None, "ant", "dog"]


def test_facts_of_a_row(five: Catalog) -> None:
    index = frame_index(10, 1)
    row = five.table.slice(1, 1).to_pylist()[0]
    assert row["num_frames"] == 10
    assert row["num_key_frames"] == len(index.key_frame_indices)
    assert row["average_fps"] == index.average_fps
    assert row["duration_seconds"] == float((index.end_pts - int(index.pts[0])) * index.time_base)
    assert row["is_variable_frame_rate"] is True
    assert (row["bytes"], row["mtime_ns"], row["fingerprint"]) == (1235, 2**60 + 1, "abc1")
    assert row["error_type"] is row["error"] is None


def test_a_failed_row_has_its_error_and_empty_facts(five: Catalog) -> None:
    row = five.table.slice(3, 1).to_pylist()[0]
    assert (row["error_type"], row["error"]) == ("UnreadableMedia", "video 3 is broken")
    assert row["width"] is row["num_frames"] is row["fingerprint"] is None
    assert five.failures == [(names(5)[3], "UnreadableMedia", "video 3 is broken")]
    assert [entry.source for entry in five.errors] == [names(5)[3]]
    assert (five[3].info, five[3].frame_index) == (None, None)
    with pytest.raises(UsageError, match="video 3 is broken"):
        five.frame_index(3)


def test_numpy_columns(five: Catalog) -> None:
    assert five.usable_rows.tolist() == [0, 1, 2, 4]
    assert five.num_frames.tolist() == [10, 10, 10, -1, 10]
    assert five.widths.tolist() == [64, 65, 66, -1, 68]
    assert five.heights.tolist() == [48, 48, 48, -1, 48]
    assert {column.dtype for column in (five.usable_rows, five.num_frames, five.widths)} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("label", [1, 2, -1, 0, 2]),
        ("start", [0.5, np.nan, 1, 2, 3]),
        ("take", [1, 2, 3, np.nan, 5]),
        ("split", [1, 0, -1, 0, 2]),
        ("good", [1, 0, 1, 1, np.nan]),
        ("width", [64, 65, 66, np.nan, 68]),
        ("mtime_ns", [2**60, 2**60 + 1, 2**60 + 2, np.nan, 2**60 + 4]),
    ],
)
def test_column_values(five: Catalog, name: str, values: list[float]) -> None:
    np.testing.assert_array_equal(five.column_values(name), values)


def test_columns_are_exact_or_refused(five: Catalog) -> None:
    made = catalog(names(2), big=[2**62 + 1, 3], boxes=[[1], [2]])
    values = made.column_values("big")
    assert (values.dtype, values.tolist()) == (np.int64, [2**62 + 1, 3])
    with pytest.raises(UsageError, match="list"):
        made.column_values("boxes")
    with pytest.raises(UsageError, match=r"'nope'.*source, kind.*error, changes_size, start, take, split, good"):
        five.column_values("nope")


def test_entries(five: Catalog) -> None:
    entry = five[-1]
    assert entry.source == names(5)[4]
    assert entry.columns == {"label": "dog", "start": 3.0, "take": 5, "split": "c", "good": None}
    assert same(entry.frame_index, frame_index(10, 4))
    info = entry.info
    assert info is not None
    assert (info.num_frames_from_header, info.duration_seconds_from_header, info.width) == (11, 0.5, 68)
    assert [e.source for e in five] == names(5)
    assert len(five) == 5
    for row in (5, -6):
        with pytest.raises(IndexError):
            five[row]


def test_identity_of_a_source(five: Catalog) -> None:
    assert (five.row_fingerprint(2), five.row_stat(2)) == ("abc2", (1236, 2**60 + 2))
    assert (five.row_fingerprint(3), five.row_stat(3)) == (None, (-1, -1))


# --- views ------------------------------------------------------------------------------------------


def test_classes_and_their_numbers_stay_in_views(five: Catalog) -> None:
    assert five.classes == ["ant", "cat", "dog"]
    dogs = five.filter(pc.field("label") == "dog")
    assert [dogs.source(row) for row in range(len(dogs))] == [names(5)[1], names(5)[4]]
    assert dogs.classes == five.classes
    assert dogs.column_values("label").tolist() == [2, 2]
    assert dogs.table.column("label").chunk(0).dictionary.to_pylist() == five.classes
    for part in five.split([0.5, 0.5], seed=1, stratify=False):
        assert part.classes == five.classes
    assert dogs.column_values("split").tolist() == [0, 2]


def test_classes_stay_when_a_view_is_saved(five: Catalog, tmp_path: Path) -> None:
    five.filter(pc.field("label") == "dog").to_parquet(tmp_path / "dogs.parquet")
    dogs = Catalog.open(tmp_path / "dogs.parquet")
    assert (dogs.classes, dogs.column_values("label").tolist()) == (five.classes, [2, 2])


def test_a_view_of_a_view(five: Catalog) -> None:
    view = five.filter(pc.field("width") >= 65).filter(pc.field("start") != 3)
    assert [view.source(row) for row in range(len(view))] == [names(5)[2]]
    assert same(view.frame_index(0), frame_index(10, 2))
    assert (view.num_frames.tolist(), view.usable_rows.tolist()) == ([10], [0])
    assert view[0].columns["take"] == 3


def test_a_filter_by_values(five: Catalog) -> None:
    def rows(*condition: Any, **equal: Any) -> list[int]:
        view = five.filter(*condition, **equal)
        assert view.classes == five.classes
        return [five.table["source"].to_pylist().index(view.name(row)) for row in range(len(view))]

    assert rows(label="dog") == [1, 4]
    assert rows(label="dog", split="c") == [4]
    assert rows(split=None) == [2]
    assert rows(take=np.int64(3)) == [2]
    assert rows(pc.field("width") >= 65, good=True) == [2]
    assert rows(label="dog", split="b") == []


def test_a_filter_by_mask(five: Catalog) -> None:
    is_dog = pc.equal(five.table["label"].cast(pa.string()), "dog")  # Null where there is no label.
    expected = [names(5)[1], names(5)[4]]
    for mask in (
        is_dog,
        is_dog.combine_chunks(),
        is_dog.fill_null(False).to_numpy(),
        [False, True, False, False, True],
    ):
        for view in (five.filter(mask), five[mask]):
            assert [view.name(row) for row in range(len(view))] == expected
    assert [entry.source for entry in five.filter(is_dog, split="c")] == [names(5)[4]]


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ("width > 3", r"write catalog\.filter\(pc\.field\('width'\) > 3\) \(with import"),
        ("split == 'train'", r"write catalog\.filter\(split='train'\)$"),
        ("split = 'train'", r"write catalog\.filter\(split='train'\)$"),
        ("split != 'train'", r"write catalog\.filter\(pc\.field\('split'\) != 'train'\)"),
        ("the wide ones", r"write catalog\.filter\(pc\.field\('width'\) >= 640\)"),
        ("label", r"write catalog\.column_values\('label'\), or catalog\.table\['label'\]$"),
        (pa.chunked_array([["dog"]]) == "dog", r"gives one bool: write catalog\.filter\(label='cat'\)$"),
        (np.False_, r"gives one bool: write catalog\.filter"),
        (lambda row: row["width"] > 3, r"functions of rows are not called: write catalog\.filter\(label='cat'\)"),
    ],
)
def test_what_is_no_condition_is_answered_with_the_line_to_write(five: Catalog, condition: Any, line: str) -> None:
    for choose in (five.filter, five.__getitem__):
        with pytest.raises(UsageError, match=line):
            choose(condition)


def test_wrong_conditions_say_which_call_is_meant(five: Catalog) -> None:
    with pytest.raises(UsageError, match=r"write catalog\.filter\(expression\)"):
        five[pc.field("width") > 3]
    with pytest.raises(UsageError, match=r"for row numbers write catalog\.take\(rows\)"):
        five.filter([0, 1])
    with pytest.raises(UsageError, match=r"mask: expected one entry per row \(5\), got 1"):
        five.filter([True])
    with pytest.raises(UsageError, match=r"split: .* several values write catalog\.filter\(pc\.field\('split'\)\.isin"):
        five.filter(split=["a", "b"])
    with pytest.raises(UsageError, match=r"no column 'spilt': .* did you mean 'split'\?"):
        five.filter(spilt="a")
    with pytest.raises(UsageError, match="got none of them"):
        five.filter()


def test_labels_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    made = catalog(names(4), labels=[10, 9, 2, None])
    made.to_parquet(tmp_path / "cat.parquet")
    for numbered in (made, Catalog.open(tmp_path / "cat.parquet")):
        assert numbered.classes == [2, 9, 10]
        assert numbered.column_values("label").tolist() == [2, 1, 0, -1]
        assert len(numbered.filter(pc.field("label") == 9)) == 1
        assert numbered[0].columns == {"label": 10}


def test_without_labels() -> None:
    plain = catalog(names(2))
    assert (plain.classes, plain.column_values("label").tolist()) == ([], [-1, -1])


def test_without_rows(tmp_path: Path) -> None:
    catalog([]).to_parquet(tmp_path / "cat.parquet")
    empty = Catalog.open(tmp_path / "cat.parquet")
    assert (len(empty), len(empty.table), empty.failures, empty.usable_rows.tolist()) == (0, 0, [], [])
    assert [len(part) for part in empty.split([0.5, 0.5], seed=0)] == [0, 0]


# --- split ------------------------------------------------------------------------------------------


def sources(part: Catalog) -> set[str]:
    return {part.name(row) for row in range(len(part))}


def test_split_gives_each_source_one_side() -> None:
    texts = [name for name in names(300) for _ in range(3)]
    parts = catalog(texts).split({"train": 0.8, "val": 0.1, "test": 0.1}, seed=5)
    assert list(parts) == ["train", "val", "test"]
    assert sum(len(part) for part in parts.values()) == 900
    assert sources(parts["train"]) | sources(parts["val"]) | sources(parts["test"]) == set(texts)
    assert sum(len(sources(part)) for part in parts.values()) == 300
    assert 200 < len(sources(parts["train"])) < 270


def test_split_depends_on_nothing_but_seed_and_value() -> None:
    whole = catalog(names(100))
    assert sources(whole.split([0.7, 0.3], seed=5)[0]) != sources(whole.split([0.7, 0.3], seed=6)[0])
    half = sources(catalog(names(50)).split([0.7, 0.3], seed=5)[0])
    assert sorted(int(name[-7:-4]) for name in half)[:12] == [2, 4, 5, 7, 8, 10, 12, 14, 15, 16, 17, 18]


def test_a_filter_over_an_unknown_column_says_which_was_meant(five: Catalog) -> None:
    with pytest.raises(
        UsageError, match=r"expression: this catalog has no column 'lable': .*did you mean 'label'\?$"
    ) as e:
        five.filter((pc.field("width") > 3) & (pc.field("lable") == "dog"))
    assert "\n" not in str(e.value)
    with pytest.raises(UsageError, match=r"no column 'split': .*; parts = catalog\.split\(.* parts\['train'\]$"):
        catalog(names(3)).filter(split="train")
    with pytest.raises(UsageError, match=r'expression: \(width == "dog"\) does not fit the columns: .*width') as e:
        five.filter(pc.field("width") == "dog")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("fractions", "advice"),
    [
        ([0.5, 0.4], ": name a part for the rest"),
        ({"train": 0.9}, ": name a part for the rest"),
        ({"train": 80, "val": 20}, ": 80 % is 0.8"),
        ([0.5, 0.6], ""),
        ([1.5, -0.5], ""),
        ([], ""),
    ],
)
def test_fractions_must_add_up(fractions: list[float] | dict[str, float], advice: str) -> None:
    with pytest.raises(UsageError, match=rf"add up to 1, not \[.*\]{advice}$"):
        catalog(names(3)).split(fractions, seed=0)


def test_wrong_splits() -> None:
    for fractions in (0.8, "4:1", None):
        with pytest.raises(UsageError, match=r"expected fractions such as \[0.8, 0.2\]"):
            catalog(names(3)).split(fractions, seed=0)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="'nope'"):
        catalog(names(3)).split([1.0], seed=0, by="nope")


def test_a_path_is_no_catalog() -> None:
    with pytest.raises(UsageError, match=r"opened with ff\.Catalog\.open\(path\)"):
        Catalog("cat.parquet")  # type: ignore[arg-type]  # the wrong call


def test_a_part_without_a_row_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"of 20 rows, none came into part 'test' \(0.001\)\. .* larger fraction"):
        parts = catalog(names(20)).split({"train": 0.999, "none": 0, "test": 0.001}, seed=0)
    assert [len(part) for part in parts.values()] == [20, 0, 0]
    assert [len(part) for part in catalog([]).split([0.5, 0.5], seed=0)] == [0, 0]


def test_rows_by_mask_slice_and_number() -> None:
    made = catalog(["a", "b", "c", "d"], labels=["x", "y", "x", "y"])

    def names(view: Catalog) -> list[str]:
        return [view.name(row) for row in range(len(view))]

    assert names(made[1:3]) == names(made[np.array([False, True, True, False])]) == ["b", "c"]
    assert names(made[[3, 0]]) == names(made[np.array([-1, 0])]) == names(made.take([-1, 0])) == ["d", "a"]
    assert names(made[made.column_values("label") == 1]) == ["b", "d"]
    assert made[np.int64(2)].row == made[-2].row == 2
    assert names(made[[]]) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [("v", "expected an integer"), ([0.5], "expected an integer"), ([True], r"\(4\), got 1"), ([4], "-4 to 3, got 4")],
)
def test_wrong_rows_are_a_usage_error(rows: Any, message: str) -> None:
    made = catalog(["a", "b", "c", "d"], labels=["x", "y", "x", "y"])
    with pytest.raises(UsageError, match=message):
        _ = made[rows]


def test_without_takes_names_of_sources() -> None:
    made = catalog(["a", "b", "c", "b"], labels=["x", "y", "x", "y"])
    found = Verification(4, (), (Failure(made.shown_name(2), "gone"),))
    for errors, left in ((made[1:2], ["a", "c"]), (["b"], ["a", "c"]), (found, ["a", "b", "b"]), ([], list("abcb"))):
        view = made.without(errors)
        assert [view.name(row) for row in range(len(view))] == left
    assert made.without(found).classes == ["x", "y"]
    with pytest.raises(UsageError, match="got the string"):
        made.without("b")


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (["b", "videos/cat.mp4", "no"], r"not in this catalog: 'no', 'videos/cat.mp4': give paths"),
        (["elsewhere/dog.mp4"], r"did you mean '/data/dog.mp4'\?"),
        ([Path("/data/dgo.mp4")], r"did you mean '/data/dog.mp4'\?"),
        (["1", "2", "3", "4", "5"], "'1', '2', '3' and 2 more"),
        ([1], "expected sources as text, or entries that have a source, got 1"),
        ([b"b"], "expected sources as text"),
    ],
)
def test_without_refuses_names_that_the_catalog_does_not_have(errors: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        catalog(["a", "b", "/data/dog.mp4"]).without(errors)


def test_without_takes_results_about_another_part() -> None:
    made = catalog(["a", "b", "c"])
    for errors in (made[2:], [made[2]], Verification(1, (), (Failure(made.shown_name(2), "gone"),))):
        assert len(made[:2].without(errors)) == 2


def test_S17_sources_that_differ_in_what_is_hidden_are_not_mixed_up() -> None:
    urls = [f"https://me:pw{number}@h/get?id={number}" for number in range(3)]
    made = catalog(urls)
    assert repr(made[1]) == "CatalogEntry('https://h/get?... (row 1)')"
    assert [made[1].source, made.table["source"][1].as_py()] == [urls[1]] * 2
    entry = LedgerEntry.of(MissingMedia("gone"), urls[1], 7, 0)
    assert (entry.source, entry.position, repr(entry).count("pw1")) == ("https://h/get?...", 7, 0)
    found = Verification(1, (), (Failure("https://h/get?... (row 1)", "gone"),), frozenset(urls[1:2]))
    for errors in (made[1:2], [made[1]], [urls[1]], [entry], found):
        assert [made.without(errors).name(row) for row in range(2)] == [urls[0], urls[2]]  # type: ignore[arg-type]
    for hidden in (["https://h/get?... (row 1)"], [MissingMedia("gone", source=urls[1])]):
        with pytest.raises(UsageError, match=r"\(a query is hidden: give entries, such as those of a ledger\)"):
            made.without(hidden)


# --- fingerprint ------------------------------------------------------------------------------------


def test_the_fingerprint_depends_on_content_not_location(five: Catalog, tmp_path: Path) -> None:
    assert five.fingerprint == catalog(
        [name.replace("data", "moved") for name in names(5)], failed=[3], labels=["cat", "dog", None, "ant", "dog"],
        start=[0.5, None, 1, 2, 3], take=[1, 2, 3, None, 5], split=["b", "a", None, "a", "c"],
        good=[True, False, True, True, None],
    ).fingerprint  # fmt: skip
    view = five.take([0, 1])
    view.to_parquet(tmp_path / "two.parquet")
    assert Catalog.open(tmp_path / "two.parquet").fingerprint == five.take([0, 1]).fingerprint


def test_the_fingerprint_changes_with_rows_order_and_columns() -> None:
    same_files = [
        catalog(names(3)),
        catalog(names(2)),
        catalog(names(3), failed=[1]),
        catalog(names(3), take=[1, 2, 3]),
        catalog(names(3), take=[1, 2, 4]),
        catalog(names(3), take=["1", "2", "4"]),
        catalog(names(3), labels=["a", "b", "c"]),
        catalog(names(3), labels=["a", "b", None]),
        catalog(names(3)).take([2, 1, 0]),
    ]
    assert len({each.fingerprint for each in same_files}) == len(same_files)
