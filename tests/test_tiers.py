"""What `make check` leaves out is listed by name, and every room keeps tests in it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.installed import SETS, find_python
from tests.lengths import pairwise, sampled
from tests.tiers import slow_tests, turn, write_times
from tests.times import sum_times

TESTS = CHECKOUT / "tests"
ROOMS = sorted(path.name for path in (CHECKOUT / "src" / "framefeed").iterdir() if (path / "__init__.py").is_file())


_TEST = re.compile(r"^(?P<decorators>(?:@.*\n(?:[\])} ].*\n)*)*)def (?P<name>test_\w+)", re.M)


@cache
def _tests_of(path: Path) -> dict[str, bool]:
    """Name -> whether a mark says that it is slow; by the text, as parsing all tests takes five seconds."""
    found = _TEST.finditer(path.read_text(encoding="utf-8") if path.exists() else "")
    return {test["name"]: "mark.slow" in test["decorators"] for test in found}


def test_listed_tests_exist() -> None:
    listed = (name.partition("::") for name in slow_tests())
    assert [f"{path}::{name}" for path, _, name in listed if name not in _tests_of(CHECKOUT / path)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_most_tests_of_a_room_are_in_make_check(room: str) -> None:
    files = [
        path for path in (TESTS / room).rglob("test_*.py") if "pytestmark = pytest.mark.slow" not in path.read_text()
    ]
    tests = [(path.relative_to(CHECKOUT), *test) for path in files for test in _tests_of(path).items()]
    fast = [name for path, name, is_slow in tests if not is_slow and f"{path}::{name}" not in slow_tests()]
    assert len(fast) > len(tests) / 2


def test_listed_tests_are_marked(request: pytest.FixtureRequest) -> None:
    marked = {
        item.nodeid.partition("[")[0] for item in request.session.items if item.get_closest_marker("slow") is not None
    }
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    assert slow_tests() & collected <= marked


def test_the_times_of_all_parameters_are_summed_and_quick_tests_are_counted_together() -> None:
    lines = [
        "0.300 0.200 tests/a.py::test_b",
        "0.250 0.150 tests/a.py::test_b",
        "0.040 0.030 tests/a.py::test_c",
        "9 8 tests/a.py::A::test_d",
    ]
    heading, rows = split_heading(write_times(sum_times(lines)))
    assert [row.split() for row in rows] == [
        ["9.0", "8.0", "1", "tests/a.py::A::test_d"],
        ["0.6", "0.3", "2", "tests/a.py::test_b"],
    ]
    assert "1 functions, 0 s of wall" in " ".join(heading)


def split_heading(text: str) -> tuple[list[str], list[str]]:
    lines = text.splitlines()
    heading = [line for line in lines if line.startswith("#")]
    return heading, lines[len(heading) :]


def test_pairs_of_values_are_covered_by_fewer_cases() -> None:
    cases = pairwise("abc", [1, 2, 3], [None, True], "xy")
    chosen = [case for case in cases if type(case) is tuple]
    left_out = [case.values for case in cases if type(case) is not tuple]
    assert sorted(map(repr, [*chosen, *left_out])) == sorted(map(repr, product("abc", [1, 2, 3], [None, True], "xy")))
    assert len(chosen) < len(left_out)
    pairs = {pair for case in left_out for pair in combinations(enumerate(case), 2)}
    assert pairs <= {pair for case in chosen for pair in combinations(enumerate(case), 2)}


def test_one_of_each_kind_and_each_so_manyth_of_a_kind_are_run() -> None:
    cases = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    for step, run in ((None, [1, 2]), (2, [1, 2, 4]), (1, [1, 2, 3, 4])):
        sample = sampled(cases, lambda case: case[0], step=step)
        assert [case[1] for case in sample if case in cases] == run
        assert [case.values for case in sample if case not in cases] == [case for case in cases if case[1] not in run]
    assert sampled("aba", str.upper)[:2] == ["a", "b"]


def test_processes_begin_at_shares_of_all_files_and_collect_all() -> None:
    rooms: list[Any] = [SimpleNamespace(path=path) for path in sorted(TESTS.iterdir())]
    begun = [turn(rooms, number / 4) for number in range(4)]
    assert begun[0] == rooms
    assert len({each[0].path for each in begun}) == 4
    for each in begun:
        assert sorted(each, key=rooms.index) == rooms


@pytest.mark.parametrize("name", SETS)
def test_what_an_installation_names_exists(name: str) -> None:
    chosen = SETS[name]
    pins = () if chosen.pins is None else (chosen.pins,)
    assert [path for path in (*pins, *chosen.tests) if not (CHECKOUT / path).exists()] == []


def test_the_oldest_set_is_the_lower_bounds() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = {name: bound.partition(",")[0] for name, _, bound in (d.partition(">=") for d in project["dependencies"])}
    lines = (CHECKOUT / SETS["oldest"].pins).read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins.keys() == bounds.keys()
    for name, bound in bounds.items():
        assert (pins[name] + ".").startswith(bound + "."), name


def test_an_interpreter_that_is_not_there_is_none() -> None:
    assert find_python("3.0") is None
