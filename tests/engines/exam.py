"""Every engine over every hard file: ``make engines-all``.

An engine is a backend of framefeed. Each has a process, which answers file by file with a deadline: one that crashes or
hangs is a row. What it gives through framefeed is compared with a loop of PyAV that reads the file in order, and so is
what its library gives when it is called directly. The page that is written is docs/engines.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.engines.direct import DIRECT
from tests.engines.files import HardFile, list_files
from tests.engines.jobs import ASK, READ, READ_DIRECTLY, Answer, Job
from tests.engines.page import NOT_TRIED, Results, Row, write_page
from tests.engines.processes import CHECKOUT, EngineProcess, Result

ENGINES = (
    "pyav",
    *(f"{name}=.venv-engines/bin/python" for name in ("opencv", "torchcodec", "torchcodec-approximate", "decord")),
    "dali=.venv-dali/bin/python",
)
REFERENCE_SECONDS = 300.0
"""For the loop that reads a whole file in order."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine to examine: the name of a backend, or module:class, and the interpreter that has its library."""

    name: str
    python: str = sys.executable

    @classmethod
    def parse(cls, text: str) -> Engine:
        name, _, python = text.partition("=")
        # Not resolved: an interpreter knows its environment by the path that it is called by.
        return cls(name, str(CHECKOUT / python) if python else sys.executable)


class Examiners:
    """The processes of one thread: one that reads the truth, one an engine."""

    def __init__(self, engines: Sequence[Engine], stack: ExitStack, deadline: float) -> None:
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="framefeed-exam-")))
        self._reference = stack.enter_context(EngineProcess("auto"))
        self._engines = [stack.enter_context(EngineProcess(engine.name, engine.python)) for engine in engines]
        self._deadline = deadline

    def examine(self, file: HardFile) -> list[Row]:
        """Give one file to all engines."""
        path, questions = file.find(), self._folder / "questions"
        known = self._reference.ask(Job(ASK, path, questions), REFERENCE_SECONDS).answer
        if known.status != "exact":
            return [Row("", file.name, Answer("left out", known.text))]
        try:
            return [
                self._examine_with(engine, file.name, partial(Job, path=path, questions=questions))
                for engine in self._engines
            ]
        finally:
            questions.unlink()

    def _examine_with(self, engine: EngineProcess, name: str, make_job: partial[Job]) -> Row:
        through = engine.ask(make_job(READ), self._deadline)
        direct = engine.ask(make_job(READ_DIRECTLY), self._deadline) if engine.name in DIRECT else Result(NOT_TRIED)
        return Row(engine.name, name, through.answer, direct.answer, through.printed)


def examine_all(
    engines: Sequence[Engine], files: Sequence[HardFile], *, deadline: float, jobs: int = 1
) -> Iterator[list[Row]]:
    """Examine files in their order; yield the rows of each."""
    local = threading.local()
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        lock = threading.Lock()

        def examine(file: HardFile) -> list[Row]:
            if not hasattr(local, "examiners"):
                with lock:
                    local.examiners = Examiners(engines, stack, deadline)
            rows: list[Row] = local.examiners.examine(file)
            return rows

        yield from pool.map(examine, files)


def find_engines(engines: Sequence[Engine]) -> tuple[list[Engine], dict[str, str], dict[str, str]]:
    """Start each engine once; return those that start, the versions of the libraries, and why others do not."""
    able, versions, missing = [], {}, {}
    for engine in engines:
        with EngineProcess(engine.name, engine.python) as process:
            answer = process.introduce()
        if answer.status == "exact":
            able.append(engine)
            versions.update(answer.facts)
        else:
            missing[engine.name] = f"{answer.status}: {answer.text}"
    return able, versions, missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine engines; 1 if one of them is wrong, crashes, hangs or prints through framefeed."""
    options = _parse(arguments)
    begun = time.monotonic()
    engines, versions, missing = find_engines([Engine.parse(text) for text in options.engines.split(",")])
    for name, why in missing.items():
        print(f"{name}: cannot be examined: {why}", flush=True)
    media = options.media if options.media and options.media.is_dir() else None
    files = list_files(media, options.only.split(",") if options.only else ())
    rows: list[Row] = []
    for number, of_file in enumerate(
        examine_all(engines, files, deadline=options.deadline, jobs=options.jobs), start=1
    ):
        rows += of_file
        print(f"{number}/{len(files)} {'; '.join(map(str, of_file))}", flush=True)
    minutes = round((time.monotonic() - begun) / 60, 1)
    real = sum("/" in file.name for file in files)
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(versions.items())),
        "not examined": "; ".join(f"{name}: {why}" for name, why in missing.items()),
        "files": f"{len(files) - real} generated and {real} real",
        "deadline": f"{options.deadline:g} s",
        "wall": f"{minutes} minutes",
    }
    results = Results(facts, rows)
    if options.update:
        results = Results.read(options.results).update(results)
    if options.results:
        results.write(options.results)
    if options.out:
        write_page(options.out, results, options.results)
    faults = [row for row in rows if row.is_fault]
    print(f"{len(files)} files, {len(engines)} engines, {minutes} minutes, {len(faults)} faults")
    return 1 if faults else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    media = os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media")
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help="names, with =PYTHON where another environment has the library"
    )
    parser.add_argument("--media", type=Path, default=Path(media), help="folder of real media")
    parser.add_argument("--only", help="parts of names of files, with commas")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--deadline", type=float, default=60, help="seconds for a file")
    parser.add_argument("--results", type=Path, help="table of all rows to write")
    parser.add_argument("--update", action="store_true", help="keep the rows of other files and engines in the table")
    parser.add_argument("--out", type=Path, help="page to write")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
