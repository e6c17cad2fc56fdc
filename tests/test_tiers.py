"""What `make check` leaves out is listed by name, and every room keeps tests in it."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.cpu_times import list_slow, sum_times
from tests.installed import SETS, find_python
from tests.tiers import listed_tests

TESTS = CHECKOUT / "tests"
ROOMS = sorted(path.name for path in (CHECKOUT / "src" / "framefeed").iterdir() if (path / "__init__.py").is_file())


@cache
def _tests_of(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def _is_marked_slow(test: ast.FunctionDef) -> bool:
    return any("mark.slow" in ast.unparse(decorator) for decorator in test.decorator_list)


@pytest.mark.parametrize("name", sorted(listed_tests()))
def test_a_listed_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert function in {test.name for test in _tests_of(CHECKOUT / path)}


@pytest.mark.parametrize("room", ROOMS)
def test_most_tests_of_a_room_are_in_make_check(room: str) -> None:
    files = [
        path for path in (TESTS / room).rglob("test_*.py") if "pytestmark = pytest.mark.slow" not in path.read_text()
    ]
    tests = [(path.relative_to(CHECKOUT).as_posix(), test) for path in files for test in _tests_of(path)]
    fast = [test for path, test in tests if f"{path}::{test.name}" not in listed_tests() and not _is_marked_slow(test)]
    assert len(fast) > len(tests) / 2


def test_listed_tests_are_marked(request: pytest.FixtureRequest) -> None:
    marked = {
        item.nodeid.partition("[")[0] for item in request.session.items if item.get_closest_marker("slow") is not None
    }
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    assert listed_tests() & collected <= marked


def test_the_list_of_slow_tests_sums_parameters_and_leaves_out_quick_tests() -> None:
    lines = [
        "0.300 tests/a.py::test_b",
        "0.250 tests/a.py::test_b",
        "0.400 tests/a.py::test_c",
        "9 tests/a.py::A::test_d",
    ]
    assert list_slow(sum_times(lines)).splitlines()[3:] == ["  0.6 tests/a.py::test_b"]


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
