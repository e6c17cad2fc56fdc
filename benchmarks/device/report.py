"""The rows of all parts: read, freed of paths and names of this machine, and printed."""

from __future__ import annotations

import getpass
import json
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_LINES, MOST_CHARACTERS = 80, 148
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+~-]+)+/([\w.+~-]+)")
_HIDDEN = ("part", "name", "state", "reason", "output", "clip", "trait")
_LABELS = ("clip", "codec", "route", "context", "library", "module", "what", "threads")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a part; the last one may be incomplete."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            rows.append({"part": 0, "name": "process", "state": "failed", "reason": "it ended in the middle of a row"})
    return rows


def clean(value: Any, names: Mapping[str, str]) -> Any:
    """Replace absolute paths, the name of the host and that of the user in all text."""
    if isinstance(value, dict):
        return {key: clean(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, names) for item in value]
    if not isinstance(value, str):
        return value
    for path, name in sorted({**names, sys.prefix: "PYTHON"}.items(), key=lambda item: -len(item[0])):
        value = value.replace(path, name)
    for secret, name in ((socket.gethostname(), "HOST"), (_find_user(), "USER")):
        if len(secret) > 3:  # a shorter one is part of other words
            value = re.sub(rf"\b{re.escape(secret)}\b", name, value)
    return _PATH.sub(r"\1", value)


def print_report(report: dict[str, Any], names: Mapping[int, str]) -> None:
    """Print at most ``MOST_LINES`` lines."""
    print("rehearsal on CPU tensors" if report["rehearsal"] else "trial", end="")
    print(": " + "; ".join(f"{name} {what}" for name, what in report["packages"].items())[: MOST_CHARACTERS * 4])
    blocks = {part: _write_lines([row for row in report["rows"] if row["part"] == part]) for part in names}
    room = MOST_LINES - 6 - 2 * len(blocks)  # the first line may be wrapped; each part has a heading and an ending
    while sum(map(len, blocks.values())) > room:
        longest = max(blocks, key=lambda part: len(blocks[part]))
        blocks[longest] = [line for line in blocks[longest][:-2] if not line.startswith("  ... ")] + [
            "  ... more in the JSON"
        ]
    for part, lines in blocks.items():
        print(f"{part} {names[part]}")
        print(*lines, sep="\n")


def _write_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Write a line per row; rows of several clips with one result share one, as do those with one reason."""
    lines: list[str] = []
    results: dict[tuple[str, str], list[str]] = {}
    without: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["state"] == "ended":
            lines.append(f"  {row['module']} ended after {row['seconds']} s")
        elif row["state"] in ("measured", "rehearsed"):
            values = ", ".join(f"{key} {_write(value)}" for key, value in row.items() if key not in _HIDDEN)
            results.setdefault((row["name"], values), []).extend([row["clip"]] if "clip" in row else [])
        else:
            labels = [str(row[key]) for key in _LABELS if key in row]
            without.setdefault((row["state"], row["reason"]), []).append(" ".join([row["name"], *labels]))
            output = row.get("output", [])
            lines += [f"    {line}" for line in [*output[:2], *output[2:][-2:]]]
    shown = [f"  {name}: {values}{_join(clips)}" for (name, values), clips in results.items()]
    missing = [f"  {state}: {reason}{_join(names)}" for (state, reason), names in without.items()]
    return [line[:MOST_CHARACTERS] for line in [*shown, *missing, *lines]]


def _join(names: list[str]) -> str:
    return f" [{'; '.join(names)}]" if names else ""


def _write(value: Any) -> str:
    if isinstance(value, dict) and "ms" in value:
        low, high = value["interval"]
        return f"{value['ms']} ms ({low}-{high})"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _find_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
