"""A process that reads files, one a message: ``python -m tests.engines.worker FD ENGINE``.

It may crash or hang: the process that started it (`tests.engines.processes`) says so then.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import resource
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.decode import BaseDecoder, ClipSlot, adapt_decoder, find_decoder
from framefeed.errors import CorruptMedia, FramefeedError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from tests.engines.direct import DIRECT
from tests.engines.jobs import ASK, INTRODUCE, READ, READ_DIRECTLY, Answer, Job
from tests.engines.judge import Pixels, Questions, judge, load_questions, make_questions, save_questions

MEMORY = 6 * 2**30
"""Bytes that an engine may allocate: a file may ask for more."""
MOST_TEXT = 200
PR_SET_PDEATHSIG = 1
WORST_FIRST = ("wrong", "unlike", "untyped", "pixels", "caught", "refused", "damaged", "close", "exact")
PACKAGES = (
    "framefeed", "av", "numpy", "opencv-python-headless", "torchcodec", "torch", "decord2", "nvidia-dali-cuda130",
)  # fmt: skip

Given = list[tuple[int, Pixels]]
Failures = list[tuple[int, Exception]]


def open_engine(name: str) -> BaseDecoder:
    """Find a decoder by the name of a backend, or by module:class."""
    module, _, attribute = name.partition(":")
    return adapt_decoder(getattr(importlib.import_module(module), attribute)()) if attribute else find_decoder(name)


def read_through(decoder: BaseDecoder, path: Path, questions: Questions) -> tuple[Given, Failures]:
    """Ask a backend for frames, each in a slot of its own."""
    given: Given = []
    failures: Failures = []
    source = MediaSource.of(path)
    for call in questions.calls:
        slots = [_make_slot(questions.index, ordinal) for ordinal in call]
        try:
            errors: Sequence[Exception | None] = decoder.decode(source, questions.index, slots).errors
        except Exception as error:
            errors = [error] * len(slots)
        for ordinal, slot, failure in zip(call, slots, errors, strict=True):
            if failure is None:
                given.append((ordinal, slot.out[0]))
            else:
                failures.append((ordinal, failure))
    decoder.close()
    return given, failures


def read_directly(name: str, path: Path, questions: Questions) -> tuple[Given, Failures]:
    """Ask a library for frames without framefeed."""
    given: Given = []
    failures: Failures = []
    (call, *_) = questions.calls
    try:
        read = DIRECT[name](path)
    except Exception as error:
        return given, [(ordinal, error) for ordinal in call]
    for ordinal in call:
        try:
            given.append((ordinal, read(ordinal)))
        except Exception as error:
            failures.append((ordinal, error))
    return given, failures


def grade(questions: Questions, given: Given, failures: Failures, path: Path, *, is_ours: bool) -> Answer:
    """Say the worst that was met, and how often.

    Args:
        questions: What was asked for.
        given: Pictures that came.
        failures: Errors in place of pictures.
        path: The file.
        is_ours: Every error must be one of framefeed.
    """
    verdicts = judge(questions, given)
    texts: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        texts[verdict.kind].append(verdict.text)
    for ordinal, error in failures:
        if is_ours and not isinstance(error, FramefeedError):
            texts["untyped"].append(_describe(error, path))
        elif _is_whole(questions, ordinal):
            texts["caught" if isinstance(error, CorruptMedia) else "refused"].append(_describe(error, path))
    status = next((status for status in WORST_FIRST if texts[status]), "exact")
    asked, met = len(given) + len(failures), sorted(texts[status])
    if status == "exact":
        return Answer(status, asked=asked)
    counted = "" if len(met) == asked or status == "close" else f"{len(met)} of {asked} frames: "
    return Answer(status, counted + met[0], asked, len(texts["wrong"]))


def _make_slot(index: FrameIndex, ordinal: int) -> ClipSlot:
    output = OutputSpec(dimension_order="NHWC")
    return ClipSlot(np.array([ordinal]), output, np.zeros((1, *output.shape(*index.stream.displayed)), np.uint8))


def _is_whole(questions: Questions, ordinal: int) -> bool:
    """Whether a frame must come: it is not damaged, and of the stream's size."""
    right = questions.answers[ordinal]
    return right is not None and not right.is_suspect and right.picture.shape[:2] == questions.index.stream.displayed


def _describe(error: Exception, path: Path) -> str:
    text = " ".join(str(error).split()).replace(f"{path.parent}/", "").removeprefix(f"{path.name}: ")
    return f"{type(error).__name__}: {text}"[:MOST_TEXT].rstrip()


class Worker:
    """Answers jobs with one engine, which is opened at the first that needs it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._decoder: BaseDecoder | None = None

    def answer(self, job: Job) -> Answer:
        """Do a job; an error of framefeed or of a library is an answer."""
        tasks: dict[str, Callable[[Job], Answer]] = {
            ASK: self._ask, READ: self._read, READ_DIRECTLY: self._read_directly, INTRODUCE: self._introduce,
        }  # fmt: skip
        return tasks[job.task](job)

    def _introduce(self, _: Job) -> Answer:
        try:
            self._open()
        except FramefeedError as error:
            return Answer("refused", str(error))
        return Answer("exact", facts=dict(_iter_versions()))

    def _ask(self, job: Job) -> Answer:
        try:
            save_questions(make_questions(job.path), job.questions)
        except (FramefeedError, AssertionError) as error:
            return Answer("refused", _describe(error, job.path))
        return Answer("exact")

    def _read(self, job: Job) -> Answer:
        questions = load_questions(job.questions)
        given, failures = read_through(self._open(), job.path, questions)
        return grade(questions, given, failures, job.path, is_ours=True)

    def _read_directly(self, job: Job) -> Answer:
        questions = load_questions(job.questions)
        given, failures = read_directly(self._engine, job.path, questions)
        return grade(questions, given, failures, job.path, is_ours=False)

    def _open(self) -> BaseDecoder:
        if self._decoder is None:
            self._decoder = open_engine(self._engine)
        return self._decoder


def _iter_versions() -> Any:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def main(file_descriptor: str, engine: str) -> None:
    """Answer until the other side closes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # or one that hangs would stay when the exam is killed
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    worker = Worker(engine)
    with Connection(int(file_descriptor)) as connection:
        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            connection.send(worker.answer(job))
            gc.collect()  # pipelines of DALI, with threads, hang on to errors


if __name__ == "__main__":
    main(*sys.argv[1:])
