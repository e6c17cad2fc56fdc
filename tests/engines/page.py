"""What the exam found: a table of all rows, and a page for readers: ``python -m tests.engines.page RESULTS PAGE``."""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engines.jobs import Answer

STATUSES = {
    "exact": "exact",
    "close": "within tolerance",
    "pixels": "other pixels",
    "damaged": "damaged otherwise",
    "caught": "frames missing",
    "refused": "refused",
    "untyped": "untyped error",
    "unlike": "wrong pictures",
    "wrong": "wrong frames",
    "crashed": "crashed",
    "hung": "hung",
}
"""By the name of a status, the heading of its column."""
FAULTS = ("wrong", "unlike", "untyped", "crashed", "hung")
"""What no backend may do."""
SHOWN = {"exact", "close", "refused", "wrong", "unlike", "crashed", "hung"}
"""Statuses with a column also where none was met."""
COLUMNS = ("engine", "file", "through", "direct", "asked", "wrong", "wrong directly", "why", "why directly", "printed")

_ALIKE = 60  # characters: texts that begin alike are one reason
_NAMED = 6
# What is left out of a reason, or is said of all codecs and containers alike.
_PLAIN = (
    (r"^\d+ of \d+ frames: |: use backend=.*|\[\d\d:\d\d:\d\d\] |\S*/src/\S+:\d+[,:] ", ""),
    (r"does not decode \w+", "does not decode the codec"),
    (r"does not find the frames of \w+", "does not find the frames of the container"),
    (r"pictures of \w+ in \w+ that", "pictures of the codec in the container that"),
    (r"turn pictures by .*", "turn or mirror pictures as the file says"),
)

_MADE = (
    "Which frames each engine gives, of {files} files: those that recipes write to be hard, a clip of every codec, and "
    "real ones. Of each file up to 14 frames are asked for: the first and the last, some by chance, in any order, "
    "again and backwards. The measure is a loop of PyAV that decodes the file in order.",
    "Made on {date} by `make engines-all` in {wall}, each engine in a process of its own, with {deadline} a file. All "
    "rows are in `benchmarks/results/{table}`. {versions}.",
)
_LEGEND = """- *exact*: every pixel of every frame is equal.
- *within tolerance*: the right frame, which no other frame of the file is clearly nearer to, with a PSNR of 28 dB or
  more: another conversion to RGB.
- *other pixels*: the right frame, in another size or beyond the tolerance, such as HDR whose tones an engine maps, or
  noise of colours.
- *frames missing*: `CorruptMedia` for frames that are whole: the engine gave none, or one of another time, which
  framefeed caught.
- *refused*: another typed error: the engine cannot decode the codec, or does not claim to.
- *wrong frames*, *wrong pictures*: another frame of the file, or a picture that is like none of it, and no error.
- *prints*: files at which the library wrote to the terminal.
"""
_THROUGH = """`ff.VideoDecoder(path, backend="...")`. A row counts each file once, in the column of the worst.
"""
_DIRECTLY = """The same libraries as their documentation calls them: `capture.set(cv2.CAP_PROP_POS_FRAMES, n)` and
`read()`, `VideoDecoder(path)[n]`, `VideoReader(path)[n]`, `fn.decoders.video(frames=[n])`. Nothing checks a frame, so
here the column of wrong frames counts what a training loop would not notice. Frames are counted as the loop of PyAV
counts them: one that an edit list cuts away, or that is never shown, has no number.
"""

NOT_TRIED = Answer("")


@dataclass(frozen=True, slots=True)
class Row:
    """What one engine gave of one file; without an engine, why the file was left out.

    Attributes:
        engine: Name of the backend.
        file: Name of the file.
        through: Through framefeed.
        direct: When the library is called directly; the status is empty where that was not tried.
        printed: What the library printed through framefeed, its first line.
    """

    engine: str
    file: str
    through: Answer
    direct: Answer = NOT_TRIED
    printed: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether a backend did what none may do."""
        return self.through.status in FAULTS or bool(self.printed)

    def __str__(self) -> str:
        direct = f", directly {self.direct.status}" if self.direct.status else ""
        printed = f", prints {self.printed!r}" if self.printed else ""
        return f"{self.file}: {self.engine} {self.through.status} {self.through.text}{direct}{printed}"

    @property
    def cells(self) -> tuple[str, ...]:
        through, direct = self.through, self.direct
        numbers = (str(through.asked), str(through.wrong), str(direct.wrong))
        texts = (through.text, direct.text, self.printed)
        return (self.engine, self.file, through.status, direct.status, *numbers, *map(_flatten, texts))

    @classmethod
    def parse(cls, line: str) -> Row:
        engine, file, through, direct, asked, wrong, wrong_directly, why, why_directly, printed = line.split("\t")
        return cls(
            engine,
            file,
            Answer(through, why, int(asked), int(wrong)),
            Answer(direct, why_directly, int(asked), int(wrong_directly)),
            printed,
        )


@dataclass(frozen=True, slots=True)
class Results:
    """All rows of a run, and how it was made."""

    facts: Mapping[str, str]
    rows: Sequence[Row]

    def write(self, path: Path) -> None:
        """Write them as a table."""
        lines = [*(f"# {name}\t{text}" for name, text in self.facts.items()), "\t".join(COLUMNS)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, *("\t".join(row.cells) for row in self.rows)]) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a table that `write` wrote."""
        lines = path.read_text(encoding="utf-8").splitlines()
        facts = dict(line.removeprefix("# ").split("\t", 1) for line in lines if line.startswith("# "))
        return cls(facts, [Row.parse(line) for line in lines[len(facts) + 1 :]])

    def update(self, later: Results) -> Results:
        """Replace the rows that a later run of the same libraries has, too.

        Raises:
            ValueError: The libraries are others.
        """
        if self.facts["versions"] != later.facts["versions"]:
            raise ValueError(f"the table is of {self.facts['versions']}, the run of {later.facts['versions']}")
        rows = {(row.file, row.engine): row for row in (*self.rows, *later.rows)}
        return Results(self.facts, list(rows.values()))


def write_page(path: Path, results: Results, table: Path | None) -> None:
    """Write the page."""
    path.write_text(make_page(results, table.name if table else "none"), encoding="utf-8")


def make_page(results: Results, table: str) -> str:
    """Make the page of a run.

    Args:
        results: All rows.
        table: Name of the file that has them.
    """
    by_engine: dict[str, list[Row]] = defaultdict(list)
    for row in results.rows:
        by_engine[row.engine].append(row)
    left_out = by_engine.pop("", [])
    through = {name: [row.through.status for row in rows] for name, rows in by_engine.items()}
    direct = {name: [row.direct.status for row in rows] for name, rows in by_engine.items() if rows[0].direct.status}
    sections = [
        "# Engines\n",
        *(textwrap.fill(text.format_map({**results.facts, "table": table}), 120) + "\n" for text in _MADE),
        _LEGEND,
        "## Through framefeed\n",
        _THROUGH,
        _make_table(through, {name: sum(bool(row.printed) for row in rows) for name, rows in by_engine.items()}),
        _list_faults(results.rows),
        "## Called directly\n",
        _DIRECTLY,
        _make_table(
            direct, {name: sum(row.direct.wrong for row in by_engine[name]) for name in direct}, "frames wrong"
        ),
        "## Where an engine is not exact\n",
        *(
            _list_engine(name, rows)
            for name, rows in by_engine.items()
            if any(row.through.status != "exact" for row in rows)
        ),
        "## Files without a question\n",
        f"framefeed refuses {len(left_out)} of the files before an engine sees them:\n",
        _list_reasons([(row.file, row.through.text) for row in left_out]),
    ]
    return "\n".join(section for section in sections if section)


def _make_table(statuses: Mapping[str, Sequence[str]], last: Mapping[str, int], heading: str = "prints") -> str:
    met = [status for status in STATUSES if status in SHOWN or any(status in each for each in statuses.values())]
    lines = [
        f"| engine | {' | '.join(STATUSES[status] for status in met)} | {heading} |",
        "|---" * (len(met) + 2) + "|",
    ]
    for name, each in statuses.items():
        counts = Counter(each)
        lines.append(f"| {name} | {' | '.join(str(counts[status]) for status in met)} | {last[name]} |")
    return "\n".join(lines) + "\n"


def _list_faults(rows: Sequence[Row]) -> str:
    faults = [row for row in rows if row.is_fault]
    if not faults:
        return "No engine gave another frame, crashed, hung or printed through framefeed.\n"
    lines = [
        f"- {row.engine}, {row.file}: {STATUSES[row.through.status]}: {row.through.text or row.printed}"
        for row in faults
    ]
    return "\n".join(["**Faults:**\n", *lines]) + "\n"


def _list_engine(name: str, rows: Sequence[Row]) -> str:
    parts = [f"### {name}\n"]
    for status, heading in STATUSES.items():
        met = [(row.file, row.through.text) for row in rows if row.through.status == status]
        if met and status != "exact":
            parts += [f"{heading[0].upper()}{heading[1:]}, {len(met)} files:\n", _list_reasons(met)]
    wrong = [row.file for row in rows if row.direct.status in ("wrong", "unlike")]
    if wrong:
        parts.append(f"Called directly, {len(wrong)} files have wrong frames or pictures: {_name_few(wrong)}.\n")
    return "\n".join(parts)


def _list_reasons(pairs: Sequence[tuple[str, str]]) -> str:
    """Group files by the reason; numbers do not count."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for file, text in pairs:
        reason = text
        for pattern, plain in _PLAIN:
            reason = re.sub(pattern, plain, reason)
        groups[re.sub(r"0x[0-9a-f]+|\d+", "N", reason)[:_ALIKE]].append((file, reason))
    largest = sorted(groups.values(), key=lambda group: (-len(group), group[0][1]))
    lines = [f"- {len(group)}: {_quote(group[0][1])} ({_name_few([file for file, _ in group])})" for group in largest]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return text.replace("|", "/").replace("<", "(").replace(">", ")").replace("_", "\\_").replace("*", "\\*")


def _name_few(files: Sequence[str]) -> str:
    names = [f"`{file.rpartition('/')[2]}`" for file in files]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _flatten(text: str) -> str:
    return " ".join(text.split())


def main(table: str, page: str) -> None:
    """Write the page of an earlier run again."""
    write_page(Path(page), Results.read(Path(table)), Path(table))


if __name__ == "__main__":
    main(*sys.argv[1:])
