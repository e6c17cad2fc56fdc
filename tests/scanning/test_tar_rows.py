"""Rows of tar archives: compared with a slow reference, for any cut of the tables; values that are bad or too large."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._names import split_part
from framefeed._values import Limits
from framefeed.archives import MemberKind, MemberTable, split_name
from framefeed.errors import LimitExceeded, UnreadableMedia
from framefeed.scanning._tar_rows import MOST_JSON_COLUMNS, ArchiveRows, TarRowMaker, make_error_row

MEDIA = ("mp4", "jpg", "left.mp4", "seg.PNG")
VALUES = {"cls": [b"3", b" 4\n", b"cat", b"", b"\xff"], "txt": [b"a text", b"", b"\xff\xfe"],
          "json": [b'{"a": 1, "b": [1, "x"], "c": {"d": 1}}', b'{"a": "t", "key": null}', b"[1]", b"{", b"\xff"],
          "index": [b"7", b"x"]}  # fmt: skip
FIELDS = st.sampled_from([*MEDIA, *VALUES, "pkl", "npy"])
MEMBERS = st.lists(
    st.tuples(
        st.sampled_from("abc"), FIELDS, st.integers(0, 4), st.sampled_from([MemberKind.FILE] * 9 + [*MemberKind])
    ),
    max_size=14,
)
Member = tuple[str, bytes, MemberKind]


def list_members(drawn: Sequence[tuple[str, str, int, MemberKind]]) -> list[Member]:
    data = [VALUES.get(field, [b"media"]) for _, field, _, _ in drawn]
    return [
        (f"d/{key}.{field}", options[number % len(options)], kind)
        for (key, field, number, kind), options in zip(drawn, data, strict=True)
    ]


def make_rows(members: Sequence[Member], cuts: Sequence[int] = (), limits: Limits | None = None) -> ArchiveRows:
    offsets = [512 * (2 * row + 1) for row in range(len(members))]
    contents = {offset: data for offset, (_, data, _) in zip(offsets, members, strict=True)}

    def read(offset: int, count: int) -> bytes:
        assert offset in contents, "the offset of another member"
        return contents[offset][:count]

    maker = TarRowMaker("/x.tar", limits or Limits(), read)
    ends = sorted({*cuts, len(members)})
    for begin, end in zip([0, *ends], ends, strict=False):
        part = members[begin:end]
        sizes = np.array([len(data) for _, data, _ in part], np.int64)
        kinds = np.array([kind for _, _, kind in part], np.uint8)
        maker.add(MemberTable([name for name, _, _ in part], np.array(offsets[begin:end], np.int64), sizes, kinds))
    return maker.finish("version")


def list_rows(rows: ArchiveRows) -> list[tuple[Any, ...]]:
    columns = [rows.names, rows.offset.tolist(), rows.size.tolist(), rows.keys.to_pylist(), rows.fields.to_pylist()]
    return list(zip(*columns, [row in rows.errors for row in range(len(rows))], strict=True))


def list_values(rows: ArchiveRows) -> dict[str, list[Any]]:
    values = {name: column.to_pylist() for name, column in rows.texts.items()}
    return values | {
        f"json {name}": [text and json.loads(text) for text in column.to_pylist()] for name, column in rows.json.items()
    }


def get_member(name: str) -> str:
    part = split_part(name)
    assert part is not None
    return part.member


def parse(field: str, data: bytes) -> dict[str, Any]:
    """The values of one member; a ValueError if it is bad."""
    text = data.decode()
    if field == "txt":
        return {field: text}
    if field != "json":
        if not text.strip():
            raise ValueError
        return {field: text.strip()}
    parsed = json.loads(text)
    named = parsed if isinstance(parsed, dict) else {"json": parsed}
    return {f"json {name}": value for name, value in named.items()}


def make_slowly(members: Sequence[Member]) -> tuple[list[tuple[Any, ...]], dict[str, list[Any]]]:
    """The rows, from the rules of the page on packed media; samples of WebDataset by its own regular expression."""
    samples, last = list[list[int]](), None
    for row, (name, _, kind) in enumerate(members):
        if kind in (MemberKind.FILE, MemberKind.SPARSE):
            key = split_name(name)
            if last is None or key is None or key[0] != last:
                samples.append([])
            last = key and key[0]
            samples[-1].append(row)
    bad, values = set[int](), dict[int, dict[str, Any]]()
    for sample in samples:
        fields = [name.partition(".")[2].lower() for name, _, _ in (members[row] for row in sample)]
        found, is_bad = dict[str, Any](), len(set(fields)) < len(fields)
        for row, field in zip(sample, fields, strict=True):
            if field in VALUES:
                try:
                    if members[row][2] == MemberKind.SPARSE:
                        raise ValueError
                    found |= parse(field, members[row][1])
                except ValueError:
                    is_bad = True
        bad |= set(sample) if is_bad else set()
        values |= dict.fromkeys(sample, {} if is_bad else found)
    media = [row for row, (name, _, kind) in enumerate(members)
             if name.rpartition(".")[2].lower() in ("mp4", "jpg", "png") and kind != MemberKind.FOLDER]  # fmt: skip
    counts = Counter(members[row][0] for row in media)
    names = sorted({name for row in media for name in values.get(row, ()) if members[row][2] == MemberKind.FILE})
    rows = []
    for row in media:
        name, data, kind = members[row]
        key, field = split_name(name) or ("", "")
        is_file = kind == MemberKind.FILE
        where = (512 * (2 * row + 1), len(data)) if is_file else (-1, 0)
        rows.append((name, *where, key, field, not is_file or row in bad or counts[name] > 1))
    is_file = [members[row][2] == MemberKind.FILE for row in media]
    columns = {
        name: [values[row].get(name) if known else None for row, known in zip(media, is_file, strict=True)]
        for name in names
    }
    return rows, columns


@given(MEMBERS, st.lists(st.integers(0, 14), max_size=3))
def test_rows_are_those_of_a_slow_reference_for_any_cut(drawn: Any, cuts: list[int]) -> None:
    members = list_members(drawn)
    rows = make_rows(members, [min(cut, len(members)) for cut in cuts])
    expected, values = make_slowly(members)
    shown = [(get_member(name).partition(" (number")[0], *others) for name, *others in list_rows(rows)]
    assert shown == expected
    assert len(set(rows.names)) == len(rows.names)
    assert list_values(rows) == values


SAMPLE: list[Member] = [("d/1.mp4", b"media", MemberKind.FILE), ("d/1.jpg", b"media", MemberKind.FILE)]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("d/1.json", b'{"a": ', "is not JSON (Expecting value at its character 7)"),
        ("d/1.json", b"[" * 200_000, "is JSON that cannot be read (maximum recursion depth"),
        ("d/1.json", b"9" * 5000, "is JSON that cannot be read (Exceeds the limit"),
        ("d/1.txt", b"caf\xe9", "is not UTF-8 (at its byte 3)"),
        ("d/1.cls", b" \n", "is empty"),
    ],
)
def test_S09_a_bad_value_is_an_error_of_all_media_of_its_sample(name: str, data: bytes, reason: str) -> None:
    others: list[Member] = [("d/2.jpg", b"media", MemberKind.FILE)]
    rows = make_rows([*SAMPLE, (name, data, MemberKind.FILE), *others])
    assert set(rows.errors) == {0, 1}
    message = str(rows.errors[0])
    assert message.startswith(f"/x.tar: the member {name!r} {reason}")
    assert message.endswith("correct it, or leave it out of the archive")
    assert isinstance(rows.errors[0], UnreadableMedia)


def test_S04_a_value_above_the_limit_is_not_read() -> None:
    rows = make_rows([*SAMPLE, ("d/1.txt", b"x" * 5, MemberKind.FILE)], limits=Limits(max_header_bytes=4 * 256))
    error = rows.errors[0]
    assert isinstance(error, LimitExceeded)
    assert "the member 'd/1.txt' of 5 bytes" in str(error) or "a member 'd/1.txt' of 5 bytes" in str(error)
    assert not make_rows([*SAMPLE, ("d/1.txt", b"x" * 4, MemberKind.FILE)], limits=Limits(max_header_bytes=1024)).errors


def test_S07_pickles_are_never_read() -> None:
    pickles = [(f"d/1.{field}", b"\x80\x04N.", MemberKind.FILE) for field in ("pkl", "pyd", "pickle", "npy")]
    rows = make_rows([*SAMPLE, *pickles])
    assert len(rows) == 2
    assert not rows.errors
    assert not rows.texts


def test_names_in_json_are_bounded() -> None:
    many = json.dumps({f"n{number}": number for number in range(MOST_JSON_COLUMNS + 5)}).encode()
    rows = make_rows([*SAMPLE, ("d/1.json", many, MemberKind.FILE)])
    assert list(rows.json) == [f"n{number}" for number in range(MOST_JSON_COLUMNS)]
    assert rows.left_out


def test_values_of_names_that_are_known_are_kept_behind_the_bound() -> None:
    many = json.dumps({f"n{number}": number for number in range(MOST_JSON_COLUMNS)}).encode()
    samples = [b'{"caption": "first"}', many, b'{"caption": "third"}']
    rows = make_rows([
        member for number, data in enumerate(samples)
        for member in ((f"{number}.jpg", b"x", MemberKind.FILE), (f"{number}.json", data, MemberKind.FILE))
    ])  # fmt: skip
    assert list_values(rows)["json caption"] == ["first", None, "third"]
    assert rows.left_out


def test_a_byte_order_mark_before_a_value_is_no_part_of_it() -> None:
    values = {"json": b'{"a": "x"}', "txt": b"a text", "cls": b"7"}
    members = [("1.jpg", b"x", MemberKind.FILE)]
    members += [(f"1.{field}", b"\xef\xbb\xbf" + data, MemberKind.FILE) for field, data in values.items()]
    rows = make_rows(members)
    assert not rows.errors
    assert list_values(rows) == {"json a": ["x"], "txt": ["a text"], "cls": ["7"]}


def test_a_member_that_got_shorter_is_an_error() -> None:
    maker = TarRowMaker("/x.tar", Limits(), lambda _offset, count: b"x" * (count - 1))
    names, numbers = ["1.jpg", "1.txt"], np.array([512, 1536], np.int64)
    maker.add(MemberTable(names, numbers, np.array([3, 3], np.int64), np.zeros(2, np.uint8)))
    assert "got shorter" in str(maker.finish().errors[0])


def test_an_archive_without_rows_and_one_with_an_error_alone() -> None:
    empty = make_rows([])
    assert (len(empty), empty.keys.to_pylist(), empty.errors) == (0, [], {})
    error = UnreadableMedia("/x.tar: no", source="/x.tar", stage="open")
    rows = make_error_row("/x.tar", error)
    assert (rows.names, rows.keys.to_pylist(), rows.errors) == (["/x.tar"], [None], {0: error})


def test_names_that_are_no_utf8_and_hidden_secrets() -> None:
    maker = TarRowMaker("https://user:pass@host/x.tar?sig=abc", Limits(), lambda _offset, count: b"{"[:count])
    names = ["caf\udce9.jpg", "caf\udce9.json"]
    maker.add(MemberTable(names, np.array([512, 1536], np.int64), np.ones(2, np.int64), np.zeros(2, np.uint8)))
    rows = maker.finish()
    assert rows.keys.to_pylist() == ["caf\0dce9"]
    assert "pass" not in str(rows.errors[0])
    assert "abc" not in str(rows.errors[0])
