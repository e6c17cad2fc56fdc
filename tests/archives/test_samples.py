"""Samples are those of WebDataset: compared with a slow reference that is written from its rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.archives import SKIPPED, MemberKind, MemberTable, SampleGrouper
from framefeed.archives._samples import split_name

NAMES = ["a.jpg", "a.cls", "b.JPG", "b.jpg", "a.b.c", "d/a.jpg", "d/a.cls", "d.x/a.jpg", ".hidden", "d/.hidden",
         "d.x/.hidden", "none", "d/none", "__meta__", "__meta__.json", "__a__/b.jpg", "__a", "__", "x__", "a.__key__",
         "a.", "d/a.", "", "/", "/a.b", "a\n.b", "a.b\nc", "d.e\nf/g.h", "d/e\nf/g.h"]  # fmt: skip
KINDS = [MemberKind.FILE] * 6 + [MemberKind.FOLDER, MemberKind.HARD_LINK, MemberKind.SPARSE]
MEMBERS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(KINDS)), max_size=25)


def make_table(members: Sequence[tuple[str, MemberKind]]) -> MemberTable:
    numbers = np.arange(len(members), dtype=np.int64)
    kinds = np.array([kind for _, kind in members], np.uint8)
    return MemberTable([name for name, _ in members], 512 * numbers, numbers, kinds)


def group_slowly(members: Sequence[tuple[str, MemberKind]]) -> list[dict[str, Any]]:
    """WebDataset's rules, from SOURCES: a sample is its fields with rows, and "doubled" where it would raise."""
    samples: list[dict[str, Any]] = []
    for row, (name, kind) in enumerate(members):
        if kind not in (MemberKind.FILE, MemberKind.SPARSE):
            continue
        if "/" not in name and name.startswith("__") and name.endswith("__"):
            continue
        if re.match(r"__[^/]*__($|/)", name):
            continue
        match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
        if not match:
            continue
        key, field = match[1], match[2].lower()
        if not samples or samples[-1]["key"] != key:
            samples.append({"key": key, "rows": [], "fields": [], "doubled": None})
        sample = samples[-1]
        if field in sample["fields"] or field in ("__key__", "__url__"):
            sample["doubled"] = sample["doubled"] or field
        sample["rows"].append(row)
        sample["fields"].append(field)
    return samples


def group(members: Sequence[tuple[str, MemberKind]], parts: Sequence[int] = ()) -> list[dict[str, Any]]:
    grouper, samples, begin = SampleGrouper(), dict[int, dict[str, Any]](), 0
    for end in [*parts, len(members)]:
        grouped = grouper.group(make_table(members[begin:end]))
        for row, number in enumerate(grouped.sample.tolist()):
            if number == SKIPPED:
                assert grouped.keys[row] == grouped.fields[row] == ""
                continue
            sample = samples.setdefault(number, {"key": grouped.keys[row], "rows": [], "fields": []})
            assert sample["key"] == grouped.keys[row]
            sample["rows"].append(begin + row)
            sample["fields"].append(grouped.fields[row])
        begin = end
    assert list(samples) == list(range(grouper.num_samples))
    assert sum(grouper.skipped.values()) + sum(len(each["rows"]) for each in samples.values()) == len(members)
    return [{**sample, "doubled": grouper.doubled.get(number)} for number, sample in samples.items()]


@given(MEMBERS, st.lists(st.integers(0, 25), max_size=3).map(sorted))
def test_samples_are_those_of_webdataset(members: list[tuple[str, MemberKind]], parts: list[int]) -> None:
    assert group(members, [min(part, len(members)) for part in parts]) == group_slowly(members)


@given(st.text("aB./\n", max_size=12))
def test_names_are_split_as_the_regular_expression_does(name: str) -> None:
    match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    assert split_name(name) == (match and (match[1], match[2].lower()))


@pytest.mark.parametrize("folder", ["__a__", "__a/b__", "__a", "a__", "a/__b__", "__a__b__", "____", "__a_/_b__"])
def test_folders_of_metadata_are_those_of_webdataset(folder: str) -> None:
    members = [(f"{folder}/1.jpg", MemberKind.FILE), (f"{folder}.jpg", MemberKind.FILE), (folder, MemberKind.FILE)]
    assert group(members) == group_slowly(members)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("train.v2/0001.left.JPG", ("train.v2/0001", "left.jpg")),
        ("0001.mp4", ("0001", "mp4")),
        ("d/.hidden", ("d/", "hidden")),  # As WebDataset has it.
        (".hidden", None),
        ("d.x/.hidden", None),
        ("README", None),
        ("d.x/README", None),
        ("a.", ("a", "")),
    ],
)
def test_a_name_is_key_and_field(name: str, parts: tuple[str, str] | None) -> None:
    assert split_name(name) == parts


def test_a_name_without_end_takes_little_time() -> None:
    """The regular expression would need hours."""
    assert split_name("/" * 2**20) is None
    assert split_name("/" * 2**20 + ".b") == ("/" * 2**20, "b")


def test_a_key_that_comes_back_is_another_sample_and_a_doubled_field_an_error() -> None:
    names = ["a.jpg", "a.JPG", "b.jpg", "a.cls", "none", "d", "__m__"]
    kinds = [MemberKind.FILE] * 5 + [MemberKind.FOLDER, MemberKind.FILE]
    grouper = SampleGrouper()
    grouped = grouper.group(make_table(list(zip(names, kinds, strict=True))))
    assert grouped.sample.tolist() == [0, 0, 1, 2, SKIPPED, SKIPPED, SKIPPED]
    assert grouper.doubled == {0: "jpg"}
    assert grouper.skipped == {"no file": 1, "metadata": 1, "no field": 1}
    grouped = grouper.group(make_table([("a.txt", MemberKind.FILE)]))
    assert grouped.sample.tolist() == [2]  # The walk goes on in the same archive.
    assert SampleGrouper().group(make_table([("a.txt", MemberKind.FILE)])).sample.tolist() == [0]
