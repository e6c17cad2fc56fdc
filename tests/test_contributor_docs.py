"""Pages for contributors name files, modules and classes that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "framefeed"
TESTS = ROOT / "tests"
PAGES = ("architecture.md", "contributing.md", "glossary.md")
# Of other libraries, or formats of names.
OTHERS = {"VideoFrame"}
FOR_ALL = {"corpus.py", "fakes.py", "judges.py", "makers.py"}
"""Modules of the tests whose helpers no other defines again."""
COMMON_NAMES = {"catalog", "folder", "index_of"}
"""Of theirs, which mean other things in other files."""


def quoted(page: str) -> list[str]:
    """Return what stands between backquotes in a page, without its blocks of code."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def missing_paths(words: list[str]) -> list[str]:
    paths = [word for word in words if re.fullmatch(r"[\w./-]+/|[\w./-]+\.(py|md|json|toml)", word)]
    known = "before.json", "scanning"
    return [
        path
        for path in paths
        if path not in known and not any((base / path).exists() for base in (ROOT, PACKAGE, ROOT / "docs"))
    ]


def missing_classes(words: list[str]) -> list[str]:
    classes = {word for word in words if re.fullmatch(r"(?:[A-Z][a-z0-9]+){2,}", word)} - OTHERS
    return sorted(classes - defined_classes())


@cache
def defined_classes() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_files_and_classes_that_pages_name_exist(page: str) -> None:
    words = quoted(page)
    assert len(words) > 10
    assert missing_paths(words) == []
    assert missing_classes(words) == []


def test_missing_files_and_classes_are_found() -> None:
    assert missing_paths(["media/_gone.py", "tests/gone/"]) == ["media/_gone.py", "tests/gone/"]
    assert missing_classes(["GoneDecoder", "FrameIndex"]) == ["GoneDecoder"]


def helpers() -> list[tuple[list[str], list[str]]]:
    """Names and modules of each line of the tables of `tests/README.md`."""
    lines = re.findall(r"^\| (`.*?) \| (`.*?) \| .* \|$", (TESTS / "README.md").read_text(encoding="utf-8"), re.M)
    return [(re.findall(r"`(\w+)`", names), re.findall(r"`tests/(.+?)`", modules)) for names, modules in lines]


def top_level_names(path: Path) -> set[str]:
    """What a module defines; its imports do not count."""
    names = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        names |= {str(getattr(each, "id", getattr(each, "name", ""))) for each in targets}
    return names


def test_helpers_that_the_page_names_exist() -> None:
    listed = helpers()
    assert len(listed) > 40
    for names, modules in listed:
        defined = [top_level_names(TESTS / module) for module in modules]
        assert all(any(name in each for each in defined) for name in names), names
        assert not names or all(any(name in each for name in names) for each in defined), modules


def test_each_helper_is_made_once() -> None:
    names = {name for listed, modules in helpers() for name in listed if FOR_ALL.intersection(modules)} - COMMON_NAMES
    assert len(names) > 10
    made = re.compile(rf"^(?:def |class )?(?:{'|'.join(names)})\b", re.M)
    others = [path for path in TESTS.rglob("*.py") if path.name not in FOR_ALL and made.search(path.read_text("utf-8"))]
    twice = [(name, path.name) for path in others for name in top_level_names(path) & names]
    assert twice == []


def test_the_citation_names_this_version_and_licence() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([a-z-]+): *(\S.*)$", text, re.M))
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (fields["cff-version"], fields["type"]) == ("1.2.0", "software")
    assert (fields["title"], fields["version"]) == (declared["name"], declared["version"])
    assert fields["license"] == declared["license"]
    assert "message" in fields
    assert re.search(r"^authors:\n  - ", text, re.M)
    assert fields["repository-code"] == declared["urls"]["Repository"]


def test_the_address_of_the_repository_is_that_of_pyproject_everywhere() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    address = urls["Repository"]
    assert urls["Issues"] == f"{address}/issues"
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
    assert f"git clone {address} " in pages[ROOT / "README.md"]
    for path, text in pages.items():
        cloned = set(re.findall(r"git clone (?:--\S+ )*(\S+)", text))
        assert cloned <= {address, f"{address}.git"}, path.name
        # Whatever it becomes, the placeholder is left nowhere.
        assert set(re.findall(r"https?://[\w.-]+\.invalid/[\w./-]*framefeed", text)) <= {address}, path.name
