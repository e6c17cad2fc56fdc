"""Work that was abandoned half-way, where the garbage collector finalises it: exact frames afterwards, nothing left."""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from framefeed.decode._decoder import DecodeCounts
from framefeed.decode._forward import ForwardReader
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends import pyav
from framefeed.decode.backends._pyav_pools import MAX_CONTAINERS, MAX_READERS, IdlePool, get_thread_pools, is_collecting
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.index import build_index
from framefeed.load import ClipLoader
from framefeed.media import FileReader, MediaSource, VideoContainer
from framefeed.plan import plan_requests
from framefeed.request import DecodeRequest
from framefeed.testing import read_stamp
from tests.corpus import corpus_file, expected_stamps
from tests.lengths import IS_ALL
from tests.patience import PATIENCE_SECONDS
from tests.programs import run_python

DIRECT, CONTAINED = "base.mp4", "closed_gop.ts"


class User:
    """Refers to itself, and to what it uses: only the collector finds it."""

    def __init__(self, used: object) -> None:
        self.used = used
        self.me = self


def stamps_of(decoder: VideoDecoder, numbers: range) -> list[int]:
    return [read_stamp(decoder[number]) for number in numbers]


def assert_exact(name: str) -> None:
    """Two groups of pictures are read, so that an old position or picture would show."""
    with VideoDecoder(corpus_file(name)) as decoder:
        assert stamps_of(decoder, range(40)) == expected_stamps(name)[:40]


def before_the_first_frame(name: str) -> Any:
    return iter(VideoDecoder(corpus_file(name)))


def in_mid_run(name: str) -> Any:
    decoder = VideoDecoder(corpus_file(name))
    assert [read_stamp(decoder[number]) for number in (0, 1)] == expected_stamps(name)[:2]
    return decoder


def between_two_pictures(name: str) -> Any:
    source = MediaSource.of(corpus_file(name))
    frames = PyAVDecoder().iter_native(source, build_index(source), range(8))
    next(frames)
    return frames


def after_an_error(name: str) -> Any:
    decoder = in_mid_run(name)
    try:
        decoder[10_000]
    except IndexError as error:
        return decoder, error
    raise AssertionError


def in_conversion(name: str) -> Any:
    decoder = in_mid_run(name)

    class Broken(PyAVDecoder):
        def iter_rgb(self, *arguments: Any) -> Iterator[Any]:
            for ordinal, picture in super().iter_rgb(*arguments):
                yield ordinal, picture
                raise CorruptMedia("no conversion today")

    forward = ForwardReader(Broken(), decoder._source, decoder.frame_index, decoder._output)
    forward.read(0)
    try:
        forward.read(1)
    except CorruptMedia as error:
        return forward, decoder, error
    raise AssertionError


def in_a_loader(name: str) -> Any:
    requests = [DecodeRequest(source=str(corpus_file(name)), indices=[number, number + 1]) for number in range(6)]
    loader = ClipLoader(plan_requests(requests), batch_size=1, workers=0)
    batches = iter(loader)
    next(batches)
    return batches


STAGES: list[Callable[[str], Any]] = [
    before_the_first_frame,
    in_mid_run,
    between_two_pictures,
    after_an_error,
    in_conversion,
    in_a_loader,
]


@pytest.fixture
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", [DIRECT, CONTAINED])
def test_frames_are_exact_after_half_read_work_was_collected(name: str, stage: Callable[[str], Any]) -> None:
    for threshold in (1, 13, 173) if IS_ALL else (1, 13):
        gc.set_threshold(threshold, 2, 2)
        User(stage(name))
        assert_exact(name)
        gc.disable()
        User(stage(name))
        gc.collect()
        gc.enable()
        assert_exact(name)


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("name", [DIRECT, CONTAINED])
def test_frames_are_exact_after_work_of_another_thread_was_collected(name: str) -> None:
    gc.disable()
    left: list[User] = []

    begun, collected = threading.Event(), threading.Event()

    def begin() -> None:
        left.extend(User(stage(name)) for stage in STAGES)
        begun.set()
        assert collected.wait(PATIENCE_SECONDS)
        assert_exact(name)

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(begin)
        assert begun.wait(PATIENCE_SECONDS)
        left.clear()
        gc.collect()
        collected.set()
        work.result()
    assert_exact(name)


@pytest.mark.usefixtures("collector")
def test_descriptors_and_threads_stay_flat_however_work_is_abandoned() -> None:
    def abandon_all() -> None:
        for stage in STAGES:
            for name in (DIRECT, CONTAINED):
                User(stage(name))
        gc.collect()
        assert_exact(DIRECT)

    gc.disable()
    gc.collect()
    assert_exact(DIRECT)
    get_thread_pools().clear()
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        abandon_all()
        assert len(os.listdir("/proc/self/fd")) <= before + MAX_READERS + MAX_CONTAINERS + 1
    assert threading.active_count() <= threads
    get_thread_pools().clear()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", [DIRECT, CONTAINED])
def test_what_is_broken_off_in_order_gives_its_things_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opens: list[object] = []
    for kind in (FileReader, VideoContainer):
        monkeypatch.setattr(kind, "__init__", _counting(kind.__init__, opens))
    path = corpus_file(name)
    index = build_index(path)
    source = MediaSource.of(path)
    direct = index.stream.contiguous

    def opened_by(action: Callable[[], object]) -> int:
        get_thread_pools().clear()
        opens.clear()
        for _ in range(30):
            action()
        return sum(isinstance(thing, FileReader if direct else VideoContainer) for thing in opens)

    def break_off() -> None:
        for _ in VideoDecoder(path, frame_index=index):
            break

    def close() -> None:
        with VideoDecoder(path, frame_index=index) as decoder:
            decoder[0], decoder[1]

    def stop_generator() -> None:
        next(PyAVDecoder().iter_native(source, index, range(8)))

    one = VideoDecoder(path, frame_index=index)
    for action in (break_off, close, stop_generator, lambda: next(iter(one)), lambda: one[3]):
        # A stream of packets that cannot be sought in is opened again to stand at its beginning.
        assert opened_by(action) == 1, action


def _counting(begin: Callable[..., None], opens: list[object]) -> Callable[..., None]:
    def counted(self: object, *arguments: Any, **options: Any) -> None:
        opens.append(self)
        begin(self, *arguments, **options)

    return counted


@pytest.mark.usefixtures("collector")
def test_a_finaliser_may_decode_and_close_in_the_middle_of_any_call() -> None:
    """A user's ``__del__`` runs inside the collector: nothing that it calls waits for a lock of its own thread."""
    name = DIRECT
    decoder = VideoDecoder(corpus_file(name))
    expected = expected_stamps(name)
    ended: list[int] = []
    were_collecting: set[bool] = set()

    class Closer:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            were_collecting.add(is_collecting())
            ended.append(read_stamp(decoder[2]))
            decoder._forward.close()

    def read_all() -> None:
        for threshold in (1, 2, 3, 5, 8, 13, 40):
            gc.set_threshold(threshold, 1, 1)
            for number in (0, 1, 2, 3, 7, 1):
                Closer()
                assert read_stamp(decoder[number]) == expected[number]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(read_all).result(PATIENCE_SECONDS)  # else a call waits for a lock that its own thread holds
    assert set(ended) == {expected[2]}
    assert True in were_collecting


@pytest.mark.usefixtures("collector")
def test_the_collector_may_run_a_finaliser_within_the_pool() -> None:
    """The pool is used again by what compares its keys, as a finaliser in the middle of a call does."""
    closed: list[int] = []
    pool: IdlePool[int] = IdlePool(3, closed.append)

    class Key:
        is_busy = False

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            if not Key.is_busy:
                Key.is_busy = True
                taken = pool.take(key)
                pool.give(key, 100 if taken is None else taken)
                Key.is_busy = False
            return self is other

    key = Key()

    def use() -> None:
        for number in range(50):
            pool.give(key, number)
            pool.take(key)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(use).result(PATIENCE_SECONDS)
    assert len(pool) <= 3


def test_threads_share_a_pool_without_losing_or_doubling_anything() -> None:
    closed: list[object] = []
    pool: IdlePool[object] = IdlePool(4, closed.append)
    in_use: set[int] = set()

    def use(_: int) -> None:
        for number in range(2000):
            thing = pool.take(number % 3) or object()
            assert id(thing) not in in_use, "two users have one thing"
            in_use.add(id(thing))
            in_use.discard(id(thing))
            pool.give(number % 3, thing)
            if number % 500 == 0:
                pool.release_idle()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    assert len(pool) <= 4
    pool.release_idle()
    assert len(closed) == len({id(thing) for thing in closed})


def test_a_closed_container_is_never_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus_file(CONTAINED)
    source, index = MediaSource.of(path), build_index(path)
    get_thread_pools().clear()
    decoder = PyAVDecoder()
    list(decoder.iter_native(source, index, [0]))

    def fail(container: VideoContainer) -> bool:
        container.close()
        raise CorruptMedia("it cannot be opened again")

    with monkeypatch.context() as patch:
        patch.setattr(VideoContainer, "reopen", fail)
        with pytest.raises(CorruptMedia, match="opened again"):
            list(decoder.iter_native(source, index, [0]))
    counts = DecodeCounts()
    frames = [frame.pts for _, frame in decoder.iter_native(source, index, range(len(index)), counts)]
    assert len(frames) == len(index)
    assert counts.opens >= 1


def test_conversion_that_fails_leaves_the_pools_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    name = DIRECT
    with VideoDecoder(corpus_file(name)) as decoder:
        with monkeypatch.context() as patch:
            patch.setattr(pyav.Converter, "write", _fail)
            with pytest.raises(ZeroDivisionError):
                decoder.get_frames_at([0, 3])
        assert stamps_of(decoder, range(len(decoder))) == expected_stamps(name)


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def test_pools_of_a_thread_that_ended_are_closed() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))

    def use() -> None:
        assert_exact(CONTAINED)
        assert_exact(DIRECT)

    for _ in range(3):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_interrupt_is_not_lost_in_a_collection() -> None:
    """An error that is raised in a callback of the collector is ignored, and so is KeyboardInterrupt."""
    code = "import gc, framefeed.decode.backends._pyav_pools\nprint(*(type(each).__name__ for each in gc.callbacks))"
    kinds = run_python("-c", code).stdout.split()
    assert len(kinds) == 3
    assert not {"function", "method"} & set(kinds)


def test_a_collection_may_run_between_any_two_steps_of_the_question() -> None:
    """From Python 3.12 on the collector runs between any two bytecodes; before, another thread's may."""
    collections = 0

    def collect(frame: FrameType, *_: object) -> Callable[..., Any] | None:
        nonlocal collections
        if frame.f_code is not is_collecting.__code__:
            return None
        frame.f_trace_opcodes = True
        gc.collect(0)
        collections += 1
        return collect

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for it here
    sys.settrace(collect)
    try:
        answer = is_collecting()
    finally:
        sys.settrace(before)
    assert not answer
    assert collections > 10


def test_a_thread_collects_while_its_finalisers_run() -> None:
    answers: list[bool] = []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            thread = threading.Thread(target=lambda: answers.append(is_collecting()))
            thread.start()
            thread.join(PATIENCE_SECONDS)
            answers.append(is_collecting())

    Cycle()
    gc.collect()
    answers.append(is_collecting())
    assert answers == [False, True, False]
