"""What a suite is, and how its rows are run, one after the other, into one report with facts of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import SubprocessError
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._shortage import read_group
from framefeed.bench._runner import NO_TIME, Rounds, Row, run_row
from framefeed.bench.baselines import Peers
from framefeed.errors import FramefeedError, MissingMedia, UsageError

Result = dict[str, Any]
"""Of a row, or of all of them; docs/formats.md."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to run; each suite reads what it needs."""

    media: tuple[Path, ...] = ()  # the user's videos and pictures, files or folders; without any some are generated
    work: Path | None = None  # folder for what is generated, kept; None for one that is removed at the end
    rows: tuple[str, ...] = ()  # keys of the rows, or () for all
    rounds: Rounds = field(default_factory=Rounds)  # how often
    frames: int = 64  # cache: of the video, spread over it
    size: tuple[int, int] = (224, 224)  # cache: (height, width) of outputs
    workers: int | None = None  # cache: of a DataLoader, and threads; None for the cores
    disk: Path | None = None  # cache: folder on the disk to store frames on; None for the folder of what is generated
    crops: Path | None = None  # cache: file for the contact sheet of the lossy formats, or None


MakeRow = Callable[[Path, ExitStack], Row]
"""Makes a row, with an empty folder, and a stack for what must be closed after it has run."""
Begin = Callable[[str], object]
"""Called with each step before it begins."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One of the benches."""

    name: str  # such as "decode"
    rows: Mapping[str, str]  # key -> what the row measures
    peers: Sequence[str]  # modules of the baselines that it loads
    # Key -> makes a row, with these options, the installed peers, and a folder; raises MissingMedia where none can run.
    # What follows a colon in a key is not in ``rows``.
    plan: Callable[[BenchOptions, Peers, Path, Begin], Mapping[str, MakeRow]]
    row_seconds: Mapping[str, float]  # key -> least seconds that the row takes; it is not begun with less time left
    pairs: int  # rounds unless the user says otherwise
    settings: Callable[[BenchOptions], Mapping[str, Any]]  # further settings for the report
    measures_disk: bool = False  # whether its rows write into the folder on the disk to measure


def run_suite(
    suite: Suite,
    options: BenchOptions,
    tell: Callable[[Result], object] = lambda row: None,
    begin: Begin = lambda what: None,
) -> Result:
    """Run the rows of a suite, and return the report; a row that could not be run is listed with the reason.

    ``tell`` is called with each row's result, ``begin`` with each row, and each long step of it, before it is measured.
    """
    unknown = sorted(set(options.rows) - suite.rows.keys())
    if unknown:
        raise UsageError(f"rows: expected some of {', '.join(sorted(suite.rows))}, got {', '.join(unknown)}")
    peers = Peers.find(suite.peers)
    report: Result = {
        "bench": suite.name,
        "machine": describe_machine(),
        "versions": peers.versions,
        "missing": peers.missing,
        "settings": {
            "pairs": options.rounds.pairs,
            "pilot": options.rounds.pilot,
            "slack": options.rounds.slack,
            **suite.settings(options),
        },
        "rows": [],
        "skipped": {},
    }
    with TemporaryDirectory(prefix="framefeed-bench-") as made:
        work = options.work or Path(made)
        work.mkdir(parents=True, exist_ok=True)
        folder = options.disk if suite.measures_disk and options.disk else work
        try:
            made_by = suite.plan(options, peers, work, begin)
        except MissingMedia as error:
            report["skipped"] = dict.fromkeys(options.rows or suite.rows, str(error))
            return report
        asked = [key for key in made_by if not options.rows or key.partition(":")[0] in options.rows]
        for number, key in enumerate(asked, 1):
            kind = key.partition(":")[0]
            if not options.rounds.has(suite.row_seconds.get(kind, 0)):
                report["skipped"][key] = NO_TIME
                continue
            begin(f"{suite.name}, row {number} of {len(asked)}, {key}: {suite.rows[kind]}")
            try:
                with TemporaryDirectory(prefix="framefeed-bench-", dir=folder) as scratch, ExitStack() as stack:
                    row = made_by[key](Path(scratch), stack)
                    if row.contenders and not options.rounds.has(0):
                        raise MissingMedia(NO_TIME)
                    result = run_row(row, options.rounds)
            except MissingMedia as error:
                report["skipped"][key] = str(error)
            except (FramefeedError, SubprocessError) as error:
                # What the other rows have measured is not lost.
                report["skipped"][key] = f"{type(error).__name__}: {error}"
            else:
                report["rows"].append(result)
                tell(result)
    return report


def _read_memory() -> int:
    """Bytes of memory of the machine, or those that the control group of a container allows."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of versions 2 and 1
        with suppress(OSError, ValueError):
            return min(whole, int(read_group(name)))
    return whole


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, system and versions; nothing that names the machine or its user."""
    lines, packages = list[str](), dict[str, str]()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    for name in ("framefeed", "av", "numpy", "pyarrow", "pillow", "torch"):
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "processor": next(models, platform.processor()),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(_read_memory() / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "packages": packages,
    }
