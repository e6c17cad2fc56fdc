"""The exam of engines: every wrong one is caught, and one that dies takes nothing with it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from framefeed.decode import ClipSlot, VideoDecoder, find_decoder
from framefeed.errors import MediaError, UnsupportedCodec
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, clip_bytes, put_packets, read_stamp, take_packets, write_clip
from tests.corpus import corpus_file
from tests.engines.conftest import ENGINES, require_engine
from tests.engines.exam import Engine, examine_all
from tests.engines.files import list_files
from tests.engines.jobs import READ, Answer, Job
from tests.engines.judge import make_questions, save_questions
from tests.engines.law import catch
from tests.engines.page import Results, make_page
from tests.engines.processes import CHECKOUT, EngineProcess
from tests.engines.worker import Worker
from tests.engines.wrong_engines import CAUGHT, HARD, PLAIN, Prints, Right, WaitsForEver

LONG_SECONDS = 100.0
"""A deadline that is not reached."""


def engine_of(kind: type[Right]) -> Engine:
    return Engine(f"{kind.__module__}:{kind.__name__}")


APART = [kind for kind, status, _ in CAUGHT if status in ("exact", "crashed")]
"""Those that are about processes; the others are asked in this one."""
Answers = dict[tuple[str, str], tuple[Answer, str]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Answers, and what was printed, by the names of engine and file."""
    files = [file for file in list_files(None) if file.name in (HARD, PLAIN)]
    engines = [engine_of(kind) for kind in APART]
    rows = [row for of_file in examine_all(engines, files, deadline=LONG_SECONDS) for row in of_file]
    assert len(rows) == len(APART) * len(files)
    answers = {(row.engine.partition(":")[2], row.file): (row.through, row.printed) for row in rows}
    for name in (HARD, PLAIN):
        questions = tmp_path_factory.mktemp("questions") / "saved"
        save_questions(make_questions(corpus_file(name)), questions)
        for kind, _, _ in CAUGHT:
            if kind not in APART:
                job = Job(READ, corpus_file(name), questions)
                answers[kind.__name__, name] = Worker(engine_of(kind).name).answer(job), ""
    return answers


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "status", "reason"), CAUGHT, ids=lambda each: getattr(each, "__name__", ""))
def test_a_wrong_engine_is_caught(kind: type[Right], status: str, reason: str, answers: Answers) -> None:
    answer, printed = answers[kind.__name__, HARD]
    assert answer.status == status
    assert reason in answer.text
    assert printed == ("[h264 @ 0x0] mmco: unref short failure" if kind is Prints else "")
    assert (answer.wrong > 0) == (status == "wrong")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, status, _ in CAUGHT if status in ("exact", "crashed", "untyped")])
def test_the_other_file_is_right(kind: type[Right], answers: Answers) -> None:
    assert answers[kind.__name__, PLAIN][0].status == "exact"


@pytest.mark.slow
def test_an_engine_that_hangs_is_ended(tmp_path: Path) -> None:
    questions = tmp_path / "questions"
    with EngineProcess(engine_of(WaitsForEver).name) as process:
        for name, seconds, status in ((HARD, 0.5, "hung"), (PLAIN, LONG_SECONDS, "exact")):
            save_questions(make_questions(corpus_file(name)), questions)
            assert process.ask(Job(READ, corpus_file(name), questions), seconds).answer.status == status


TEN = (
    "base.mp4", "chroma_change.mkv", "edit_list.mp4", "fields.mkv", "flipped_bytes.mp4", "hidden_vp8.webm",
    "open_gop.ts", "rotated_90.mp4", "vfr.mkv", "vp9.webm",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*ENGINES, "dali"])
def test_an_engine_gives_the_right_frames_of_ten_hard_files_or_errors(name: str) -> None:
    require_engine(name)
    files = [file for file in list_files(None) if file.name in TEN]
    assert len(files) == len(TEN)
    rows = [row for of_file in examine_all([Engine(name)], files, deadline=LONG_SECONDS) for row in of_file]
    assert len(rows) == len(TEN)
    assert [str(row) for row in rows if row.is_fault] == []
    right = {row.file for row in rows if row.through.status in ("exact", "close")}
    assert right >= {"vp9.webm", "chroma_change.mkv" if name == "dali" else "base.mp4"}


def test_the_page_is_what_the_table_gives() -> None:
    table = max((CHECKOUT / "benchmarks" / "results").glob("engines-*.tsv"))
    page = (CHECKOUT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert page == make_page(Results.read(table), table.name), "run python -m tests.engines.page TABLE docs/engines.md"


@pytest.mark.parametrize("name", [*ENGINES, "dali"])
def test_a_picture_of_another_size_is_an_error(name: str, tmp_path: Path) -> None:
    require_engine(name)
    path, first = tmp_path / "two_sizes.webm", ClipSpec(24, gop=12, b_frames=None, codec="libvpx")
    clip = clip_bytes(first, "webm")
    packets, time_base = take_packets(clip)
    larger, _ = take_packets(clip_bytes(replace(first, height=192, width=256, first_stamp=24), "webm"))
    packets += [replace(each, pts=each.pts + 1000, dts=each.dts + 1000) for each in larger]
    put_packets(path, clip, packets, time_base)
    with VideoDecoder(path, backend=name) as decoder:
        for ordinal in (0, 30, 47, 23, 24, 11):
            error = catch(partial(decoder.get_frame_at, ordinal))
            if ordinal >= 24:
                assert isinstance(error, MediaError), f"frame {ordinal} has another size"
            elif error is None:
                assert read_stamp(decoder[ordinal]) == ordinal
            else:
                assert name != "dali", error


def test_opencv_is_not_given_raw_pictures_that_are_stored_bottom_up(tmp_path: Path) -> None:
    require_engine("opencv")
    path = write_clip(
        tmp_path / "clip.avi", ClipSpec(4, codec="rawvideo", pixel_format="bgr24", gop=None, b_frames=None)
    )
    index = build_index(path)
    index = replace(index, stream=replace(index.stream, extradata=b"BottomUp\0"))
    slot = ClipSlot(np.array([2]), OutputSpec(), np.empty((1, *OutputSpec().shape(96, 128)), np.uint8))
    with pytest.raises(UnsupportedCodec, match=r"stored bottom-up.*use backend='pyav'"):
        find_decoder("opencv").decode(MediaSource.of(path), index, [slot])
