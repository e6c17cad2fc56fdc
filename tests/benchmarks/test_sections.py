from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.sections import __main__ as command
from benchmarks.sections import suite
from benchmarks.sections.section import Result, Section, Table, list_reasons
from framefeed.bench import Begin, BenchOptions, Contender, MakeRow, Row, ready
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia


def test_each_section_has_the_title_and_rows_of_its_write_up(tmp_path: Path) -> None:
    for key, section in suite.SECTIONS.items():
        assert section.title
        rows = section.plan(BenchOptions(), Peers(), tmp_path, print)
        assert {name.partition(":")[0] for name in rows} == {key}


def fail() -> None:
    raise MissingMedia("it needs CUDA")


def plan(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    def make(scratch: Path, stack: ExitStack) -> Row:
        contenders = [Contender("ours", ready(abs)), Contender("on a GPU", fail, "dali")]  # type: ignore[arg-type]
        return Row("A", "a row", contenders, unit="clips")

    return {"A": make}


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    reasons = list_reasons(rows["A"])
    lines = [["ours", "1.0"], *([name, why] for name, why in reasons.items())]
    return {"Seconds": Table(["", "here"], lines, ["a note"])}


def test_command_prints_a_table_and_says_why_a_route_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {"A": Section("a fake", (), plan, tabulate, 0)}
    monkeypatch.setattr(command, "SECTIONS", sections)
    monkeypatch.setattr(command, "make_sections", lambda *given: sections)
    assert command.main(["A", "--rounds", "1", "--json", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr().out
    assert "Section A: a fake" in printed
    assert "on a GPU  it needs CUDA" in printed
    assert "a note" in printed
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["key"] for row in report["rows"]] == ["A"]


def test_each_section_gets_its_own_modules_where_two_have_one_name(tmp_path: Path) -> None:
    given = list[str]()

    def note(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
        given.append(peers.modules["chart"].__name__)
        return {}

    names = ("benchmarks.load.chart", "benchmarks.scan.chart")
    sections = {name: Section("a fake", (name,), note, tabulate, 0) for name in names}
    suite.plan_rows(names, sections, BenchOptions(), tmp_path, print)
    assert given == list(names)


def test_unknown_section_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["Z"])
    assert "got Z" in capsys.readouterr().err
