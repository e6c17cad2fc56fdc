"""Numbers of labels: given by classes=, or by the labels found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.catalog._catalog import Catalog
from framefeed.cli import main
from framefeed.errors import UsageError
from framefeed.scanning import scan


def write(folder: Path, name: str, *labels: object) -> Path:
    path = folder / name
    (folder / "0.mp4").touch()
    path.write_text("path,label\n" + "".join(f"{number}.mp4,{label}\n" for number, label in enumerate(labels)))
    return path


def test_a_second_list_gets_the_numbers_of_the_first(tmp_path: Path) -> None:
    train = scan(write(tmp_path, "train.csv", "run", "jump", "sit"))
    alone = scan(write(tmp_path, "val.csv", "sit", "run"))
    val = scan(tmp_path / "val.csv", classes=train.classes)
    assert list(alone.column_values("label")) == [1, 0]
    assert list(val.column_values("label")) == [2, 1]
    assert val.classes == train.classes == ["jump", "run", "sit"]


def test_classes_are_kept_in_the_order_given(tmp_path: Path) -> None:
    catalog = scan(write(tmp_path, "a.csv", "b", "a"), classes=["b", "unused", "a"])
    assert catalog.classes == ["b", "unused", "a"]
    assert list(catalog.column_values("label")) == [0, 2]
    assert list(catalog.take([1]).column_values("label")) == [2]


def test_classes_may_be_an_array(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "b", "a")
    assert scan(path, classes=np.array(["b", "a"])).classes == ["b", "a"]
    assert scan(write(tmp_path, "b.csv", 3, 1), classes=np.array([1, 2, 3])).classes == [1, 2, 3]


def test_other_classes_renew_a_saved_catalog(tmp_path: Path) -> None:
    path, out = write(tmp_path, "a.csv", "b", "a"), tmp_path / "cat.parquet"
    for classes, codes in ((None, [1, 0]), (["b", "a"], [0, 1]), (["b", "a"], [0, 1]), (None, [1, 0])):
        assert list(scan(path, out=out, classes=classes).column_values("label")) == codes
        assert list(Catalog.open(out).column_values("label")) == codes


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a"], "1 of the 2 labels found are not in it, for example 'b'"),
        ([1, 2], "2 of the 2 labels found are not in it, .* 'a' is a string, and 1 is an integer: .*each as a string"),
        ("ab", "classes: expected a list of all labels"),
        (["a", "a", "b"], "classes: expected a list of all labels"),
        (["a", 1], "classes: expected a list of all labels"),
        ([], "classes: expected a list of all labels"),
        (3, "classes: expected a list of all labels"),
        ({"a", "b"}, "classes: expected a list of all labels"),
        ({"a": 0, "b": 1}, "classes: expected a list of all labels"),
        (iter(["a", "b"]), "classes: expected a list of all labels"),
        ([["a"], ["b"]], "classes: expected a list of all labels"),
        (np.array([0.5, 1.5]), "classes: expected a list of all labels"),
    ],
)
def test_wrong_classes_are_refused(tmp_path: Path, classes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scan(write(tmp_path, "a.csv", "a", "b"), classes=classes)


def test_classes_of_the_other_type_say_so(tmp_path: Path) -> None:
    message = "3 of the 3 labels found .* 1 is an integer, and '1' is a string: .*each as an integer"
    with pytest.raises(UsageError, match=message):
        scan(write(tmp_path, "a.csv", 1, 4, 7), classes=["1", "4", "7"])


def test_a_catalog_as_classes_says_what_to_give(tmp_path: Path) -> None:
    train = scan(write(tmp_path, "a.csv", "a", "b"))
    with pytest.raises(UsageError, match=r"got a Catalog: .*classes=train_catalog\.classes"):
        scan(tmp_path / "a.csv", classes=train)  # type: ignore[arg-type]


def test_integers_written_as_floats_are_integers(tmp_path: Path) -> None:
    catalog = scan(write(tmp_path, "a.csv", *(f"{number}.0" for number in range(12)), ""))
    assert catalog.classes == list(range(12))
    assert list(catalog.column_values("label")) == [*range(12), -1]
    assert scan(write(tmp_path, "b.csv", 0.5, 1.0)).classes == ["0.5", "1.0"]


def test_the_command_takes_the_classes_of_a_catalog(tmp_path: Path) -> None:
    scan(write(tmp_path, "train.csv", "run", "jump", "sit"), out=tmp_path / "train.parquet")
    write(tmp_path, "val.csv", "sit", "run")
    listed, out, known = (str(tmp_path / name) for name in ("val.csv", "val.parquet", "train.parquet"))
    assert main(["scan", listed, "-o", out, "--classes-of", known]) == 3  # none of the files is there
    assert list(Catalog.open(tmp_path / "val.parquet").column_values("label")) == [2, 1]
