"""Every failure mode that is cited by its number has one row in design/failures.md, and the rows say what is tested."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "design" / "failures.md"
FOLDERS = ("tests", "src", "design", "docs", "benchmarks")
# Not .svg: the paths of drawings have words like these.
ENDINGS = (".py", ".md")
# Its tables name wrong changes of code by ids of their own, some of which look the same.
OTHER_IDS = ROOT / "design" / "0010-wrong-code-not-noticed.md"

# The letters of the groups, and numbers up to 39: NumPy's type of 80 bytes is no failure mode.
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[CDGILMPS][0-3][0-9](?![A-Za-z0-9])")
# In names of tests also lower case: elsewhere that is a file name such as v_Archery_g08_c01.avi.
_TEST_NAME = re.compile(r"\bdef test_((?:[CDGILMPS][0-3][0-9]_)+)", re.IGNORECASE)
_ROW = re.compile(r"^\| ([A-Z][0-9]+) \|(.*)\|$", re.MULTILINE)


def cited_in(text: str) -> set[str]:
    """Find the numbers in a text."""
    in_names = " ".join(match[1] for match in _TEST_NAME.finditer(text)).replace("_", " ").upper()
    return set(_NUMBER.findall(f"{text} {in_names}"))


def unknown_in(text: str, page: str) -> set[str]:
    """Find the numbers in a text that have no row in a page."""
    return cited_in(text) - {number for number, _ in rows_of(page)}


def rows_of(page: str) -> list[tuple[str, list[str]]]:
    """Split a page into the rows of its tables: the number and the other cells of each."""
    return [(match[1], [cell.strip() for cell in match[2].split("|")]) for match in _ROW.finditer(page)]


def doubled_in(page: str) -> list[str]:
    """List the numbers that have more than one row."""
    return [number for number, count in Counter(number for number, _ in rows_of(page)).items() if count > 1]


def wrong_states(page: str, tested: set[str]) -> dict[str, str]:
    """Find the rows whose last cell does not fit the numbers that tests have."""
    wrong = {}
    for number, (*_, state) in rows_of(page):
        if number in tested:
            fits = state == "yes"
        elif state.startswith("under "):
            fits = state.removeprefix("under ") in tested
        else:
            fits = state in ("unnamed", "no")
        if not fits:
            wrong[number] = state
    return wrong


def texts(*folders: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and path != OTHER_IDS:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_every_cited_number_has_a_row(page: str) -> None:
    unknown = {name: sorted(numbers) for name, text in texts(*FOLDERS) if (numbers := unknown_in(text, page))}
    assert not unknown, "write a row for these in design/failures.md, or correct them"


def test_every_number_has_one_row_with_all_cells(page: str) -> None:
    assert doubled_in(page) == []
    assert {number: cells for number, cells in rows_of(page) if len(cells) != 3 or not all(cells)} == {}


def test_no_number_of_a_letter_is_left_out(page: str) -> None:
    numbers = [number for number, _ in rows_of(page)]
    for letter, count in Counter(number[0] for number in numbers).items():
        expected = [f"{letter}{i:02d}" for i in range(1, count + 1)]
        assert [number for number in numbers if number[0] == letter] == expected
    # Each of them is found where it is cited.
    assert cited_in(" ".join(numbers)) == set(numbers)


def test_rows_say_what_is_tested(page: str) -> None:
    tested = set().union(*(cited_in(text) for _, text in texts("tests")))
    assert not wrong_states(page, tested), "yes: tests have the number; under X: tests have X; else unnamed or no"


# --- each of these checks can fail ------------------------------------------------------------------

# Put together here, because a number in this file counts as cited by a test.
G, M, S = "G", "M", "S"
ROWS = f"| {M}01 | a | b | yes |\n| {M}02 | a | see {M}01 | no |\n"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (f"def test_{M}01_{M}19_a_name() -> None:", {f"{M}01", f"{M}19"}),
        (f"def test_{M.lower()}01_{M.lower()}19_a_name() -> None:", {f"{M}01", f"{M}19"}),
        (f'"""A sentence ({M}01, {S}14)."""', {f"{M}01", f"{S}14"}),
        (f'from_spec(name, "{M}16", spec)', {f"{M}16"}),
        (f"# {M}04: a reason", {f"{M}04"}),
    ],
)
def test_numbers_are_found(text: str, numbers: set[str]) -> None:
    assert cited_in(text) == numbers


@pytest.mark.parametrize(
    "text",
    ["H264 and def test_h264_pictures()", "CRC32", "UCF101", "MP4", "yuv420p10le and P010", "C420jpeg", "I;16", ">I4sQ",
     'np.dtype([("layout", "S80")])', "noqa: S102", "v_Archery_g08_c01.avi", "p01.png", "0x1D01F"],
)  # fmt: skip
def test_other_words_are_no_numbers(text: str) -> None:
    assert cited_in(text) == set()


def test_an_unknown_number_is_found() -> None:
    assert unknown_in(f"def test_{M}02_a_name(): '''as {M}39 says'''", ROWS) == {f"{M}39"}


def test_a_number_with_two_rows_is_found() -> None:
    assert doubled_in(ROWS) == []
    assert doubled_in(f"{ROWS}\n| {M}02 | again | b | no |\n") == [f"{M}02"]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (ROWS, {}),
        (f"| {M}01 | a | b | no |", {f"{M}01": "no"}),
        (f"| {M}02 | a | b | yes |", {f"{M}02": "yes"}),
        (f"| {M}02 | a | b | under {M}01 |", {}),
        (f"| {M}02 | a | b | under {G}01 |", {f"{M}02": f"under {G}01"}),
        (f"| {M}02 | a | b | perhaps |", {f"{M}02": "perhaps"}),
    ],
)
def test_a_wrong_state_is_found(rows: str, wrong: dict[str, str]) -> None:
    assert wrong_states(rows, {f"{M}01"}) == wrong
