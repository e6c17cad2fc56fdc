"""Arrays in the cache folder: those that are not there are made together, once, whatever processes ask for."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.catalog._cached_files import map_arrays
from tests.patience import PATIENCE_SECONDS

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "framefeed" / "columns"


class Maker:
    """Writes arrays that hold their name, and counts the names."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []

    def __call__(self, paths: dict[str, str]) -> None:
        self.made.append(sorted(paths))
        for name, path in paths.items():
            with Path(path).open("wb") as file:
                np.save(file, np.array([name]))


def test_missing_arrays_are_made_together() -> None:
    make = Maker()
    assert map_arrays({"b": "1"}, make)["b"].tolist() == ["b"]
    for _ in range(2):
        mapped = map_arrays(dict.fromkeys(NAMES, "1"), make)
        assert {name: values.tolist() for name, values in mapped.items()} == {name: [name] for name in NAMES}
        assert not any(values.flags.writeable for values in mapped.values())
    map_arrays({"a": "2", "b": "1"}, make)
    assert make.made == [["b"], ["a", "c"], ["a"]]
    assert map_arrays({}, make) == {}


def test_an_error_leaves_no_array(cache: Path) -> None:
    def fail(paths: dict[str, str]) -> None:
        Maker()({"a": paths["a"]})
        raise ff.UnreadableMedia("no")

    with pytest.raises(ff.UnreadableMedia, match="no"):
        map_arrays(dict.fromkeys(NAMES, "1"), fail)
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []
    make = Maker()
    map_arrays(dict.fromkeys(NAMES, "1"), make)
    assert make.made == [[*NAMES]]


def ask(names: tuple[str, ...], barrier: Any, results: Any) -> None:
    make = Maker()
    barrier.wait()
    mapped = map_arrays(dict.fromkeys(names, "1"), make)
    results.put((make.made, {name: values.tolist() for name, values in mapped.items()}))


def test_processes_that_ask_in_other_orders_make_each_array_once() -> None:
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(3), fork.Queue()
    orders = [("a", "b", "c"), ("c", "b"), ("b", "a")]
    processes = [fork.Process(target=ask, args=(names, barrier, results)) for names in orders]
    for process in processes:
        process.start()
    given = [results.get(timeout=PATIENCE_SECONDS) for _ in orders]
    for process in processes:
        process.join()
    assert sorted(name for made, _ in given for names in made for name in names) == [*NAMES]
    assert all(values == [name] for _, mapped in given for name, values in mapped.items())
