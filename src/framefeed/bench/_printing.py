"""The result of a row, and of a suite, as lines of text: one form for all suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framefeed._units import format_table

Row = Mapping[str, Any]


def describe_row(row: Row) -> list[str]:
    """Write a row as lines: its title, its contenders by speed, its figures."""
    lines = ["", row["title"]]
    for rule in dict.fromkeys(each["rule"] for each in row["contenders"]):
        entries = [each for each in row["contenders"] if each["rule"] == rule]
        if rule in row["rules"]:
            lines.append(f"  {rule}: {row['rules'][rule]}")
        lines += _table(row, sorted(entries, key=lambda each: -each["per_cpu_second"]))
    lines += [f"  {name} failed: {why}" for name, why in row["failed"].items()]
    lines += [line for comparison in row["comparisons"] for line in _compare(comparison)]
    lines += [f"  {name.replace('_', ' ')}: {_fact(value)}" for name, value in row["facts"].items()]
    return lines + [f"  WRONG: {line}" for line in row["wrong"]]


def describe_closing(report: Row) -> list[str]:
    """What belongs to all rows: what was left out, the machine, the versions."""
    machine = report["machine"]
    versions = {**machine["packages"], **report["versions"]}
    return [
        *(f"not run: {key}: {why}" for key, why in report["skipped"].items()),
        *(f"not compared, not installed: {name} ({why})" for name, why in report["missing"].items()),
        *(["most libraries are installed by: pip install 'framefeed[bench]'"] if report["missing"] else []),
        "",
        f"measured on {machine['processor']}, {machine['cores']} cores, load {machine['load_average']} at the start; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]


def _table(row: Row, entries: Sequence[Row]) -> list[str]:
    columns = list(dict.fromkeys(name for each in entries for name in each["facts"]))
    unit, checks = row["unit"], any(each["is_checked"] for each in entries)
    header = ["", f"{unit}/CPU s", f"{unit}/s", "rounds", *(name.replace("_", " ") for name in columns)]
    rows = [[*header, *(["output"] * checks)]]
    for each in entries:
        rows.append([
            each["name"],
            _rate(each["per_cpu_second"]),
            _rate(each["per_second"]),
            str(len(each["cpu_seconds"])),
            *(_fact(each["facts"].get(name, "")) for name in columns),
            *([f"{each['num_wrong']} WRONG" if each["num_wrong"] else "right" * each["is_checked"]] * checks),
        ])  # fmt: skip
    lines = format_table(rows, indent="    ")
    return lines + [f"      {each['name']}: {line}" for each in entries for line in each["wrong"]]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}" if value >= 100 else f"{value:.2f}"


def _compare(comparison: Row) -> list[str]:
    """Each figure on a line, with the contenders that the words do not name; single numbers all on one line."""
    what, figures = comparison["what"], comparison["figures"]
    rivals = {figure.get("against", "") for figure in figures.values()}
    if len(rivals) == 1 and not all(rival in what for rival in rivals):
        what += f" (against {rivals.pop()})"
    texts = {}
    for name, figure in figures.items():
        of = figure["median"]
        text = (f"{of:,.2f}" if of >= 0.1 or "pairs" in figure else f"{of:.3g}") + comparison["unit"]
        if "pairs" in figure:
            text += f" ({figure['low']:,.2f}-{figure['high']:,.2f}, {figure['pairs']} pairs)"
        ours, against = figure.get("ours", ""), figure.get("against", "")
        text += f" {ours}" if ours not in name else ""
        texts[name] = text + (f" against {against}" if against not in what else "")
    if len(texts) > 1 and not any("pairs" in figure for figure in figures.values()):
        return [f"  {what}: " + "; ".join(f"{name} {text}" for name, text in texts.items())]
    return [f"  {what}:", *(f"    {name}: {text}" for name, text in texts.items())]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    if value is None:
        return "never"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
