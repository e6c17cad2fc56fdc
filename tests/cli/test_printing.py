from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._units import format_table
from framefeed.cli._io import MAX_LINE, make_printable, print_error, print_json, print_out


@given(st.text())
def test_S13_what_is_printed_is_printable(text: str) -> None:
    assert make_printable(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – ünïcödé 视频 🎬", "plain – ünïcödé 视频 🎬"),
        ("\x1b]2;title\x07", r"\x1b]2;title\x07"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("caf\udce9", r"caf\xe9"),
        ("\ud800", r"\ud800"),
        ("\u202egpj.exe\u2028\x9b\u200b", r"\u202egpj.exe\u2028\x9b\u200b"),
    ],
)
def test_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert make_printable(text) == shown


def test_long_lines_are_shortened_in_the_middle() -> None:
    shown = make_printable("a" * 10_000_000 + "b" * 10_000_000)
    assert shown.startswith("aaa")
    assert shown.endswith("bbb")
    assert len(shown) == MAX_LINE + 5


def test_characters_that_the_encoding_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    print_out("é视\udce9")
    assert buffer.getvalue() == rb"\xe9\u89c6\xe9" + b"\n"


def test_no_lines_are_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_out()
    print_error()
    assert capsys.readouterr() == ("", "")


def test_errors_with_a_closed_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    print_error("alas")


def test_json_holds_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {
            "name": "caf\udce9\x1b é",
            "nan": float("nan"),
            "inf": [float("inf"), np.float32("nan")],
            "array": np.arange(3),
            "whole": np.int64(7),
            "bool": np.bool_(True),
            "nested": {"a": (1, None)},
        }
    )
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {
        "name": "caf\0dce9\x1b é",
        "nan": None,
        "inf": [None, None],
        "array": [0, 1, 2],
        "whole": 7,
        "bool": True,
        "nested": {"a": [1, None]},
    }


def test_tables_are_aligned() -> None:
    rows = [("scanning", "0.1 s", "2 %"), ("all", "10.0 s", "")]
    assert format_table(rows, "lrr", indent=" ") == [" scanning   0.1 s  2 %", " all       10.0 s"]


def test_S17_printed_lines_and_json_hide_secrets_of_urls(capsys: pytest.CaptureFixture[str]) -> None:
    line = "list.csv: see https://me:password@h/v.mp4?sig=abc: gone"
    print_out(line)
    print_error(line)
    print_json({"a": [line]})
    printed, errors = capsys.readouterr()
    shown = "list.csv: see https://h/v.mp4?...: gone"
    assert printed.startswith(f"{shown}\n")
    assert errors == f"framefeed: {shown}\n"
    assert json.loads(printed.removeprefix(f"{shown}\n")) == {"a": [shown]}
