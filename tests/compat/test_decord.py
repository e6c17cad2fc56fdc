"""compat.decord by its own laws: what decord2 itself gives is compared in test_decord_differences.py."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed.compat import decord
from framefeed.compat.decord import VideoReader, bridge, cpu, gpu
from framefeed.decode import AutoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia, FramefeedError, FrameNotFound, MissingDependency, TimeUnavailable, UsageError
from framefeed.index import build_index
from tests.compat.decord_calls import CLIPS, path_of, stamps
from tests.corpus import clip_file, corpus_file


@pytest.fixture
def path() -> str:
    return str(path_of("base.mp4"))


@pytest.fixture(autouse=True)
def _native() -> Iterator[None]:
    yield
    bridge.reset_bridge()


@pytest.mark.parametrize("name", ["base.mp4", "vp9.webm", "vfr.mp4", "turned.mp4", "mirrored.mp4", "base.mkv"])
def test_every_call_gives_the_frames_of_ff_video_decoder(name: str) -> None:
    path = path_of(name)
    reader = VideoReader(str(path))
    frames = ff.VideoDecoder(path, dimension_order="NHWC").get_all_frames()
    count = len(frames.data)
    assert len(reader) == count
    order = np.random.default_rng(7).permutation(count)
    assert np.array_equal(reader.get_batch(order), frames.data[order])
    assert np.array_equal(reader[:], frames.data)
    assert np.array_equal(np.stack(list(reader)), frames.data)
    for number in order[:5].tolist():
        reader.seek_accurate(number)
        assert np.array_equal(reader.next(), frames.data[number])
    begins = frames.pts_seconds - frames.pts_seconds[0]
    expected = np.stack([begins, begins + frames.duration_seconds], axis=1).astype(np.float32)
    assert np.allclose(reader.get_frame_timestamp(range(count)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["base.mp4", "late_key.mp4", "intra_refresh.mp4", "closed_gop.ts"])
def test_seek_goes_to_a_key_frame_for_every_number(name: str) -> None:
    reader = VideoReader(str(path_of(name)))
    keys, frames = reader.get_key_indices(), stamps(reader[:])
    for number in range(1, len(reader) - 1):
        for begin, target in (
            (0, next((key for key in keys if key >= number), keys[-1])),
            (len(reader) - 1, next((key for key in reversed(keys) if key <= number), keys[0])),
        ):
            reader.seek_accurate(begin)
            reader.seek(number)
            assert stamps(reader.next()) == frames[target]


def test_frames_after_a_seek_are_decoded_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ``next()`` nor ``[i]`` at the position decodes frames by themselves, each from its key frame."""
    reader = VideoReader(path)
    calls: list[int] = []
    for kind in (AutoDecoder, PyAVDecoder):
        real = kind.decode
        monkeypatch.setattr(kind, "decode", lambda *args, real=real: [calls.append(1), real(*args)][1])
    reader.seek_accurate(33)
    assert [stamps(reader.next()) for _ in range(5)] == [33, 34, 35, 36, 37]
    assert stamps(reader[38]) == 38
    reader.seek(30)
    assert stamps(reader.next()) == 24
    assert calls == []
    assert stamps(reader[50]) == 50
    assert calls != []


def test_a_damaged_frame_is_raised_once_by_next() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = VideoReader(str(corpus_file("flipped_bytes.mp4")), fault_tol=0.9)
    given, damaged = 0, 0
    for _ in range(len(reader)):
        try:
            reader.next()
            given += 1
        except decord.DECORDLimitReachedError:
            damaged += 1
    with pytest.raises(StopIteration):
        reader.next()
    assert given + damaged == len(reader)
    assert min(given, damaged) > 0


def test_native_arrays_are_arrays_of_numpy(path: str) -> None:
    frame = VideoReader(path)[3]
    assert isinstance(frame, np.ndarray)
    assert type(frame.asnumpy()) is np.ndarray
    assert np.shares_memory(frame, frame.asnumpy())
    assert float(np.mean(frame)) == float(frame.asnumpy().mean())
    assert np.array_equal(np.from_dlpack(frame), frame)
    assert (frame.ctx, frame.context) == (cpu(0), cpu(0))
    assert type(pickle.loads(pickle.dumps(frame))) is decord.NDArray


def test_frames_are_the_callers_own(path: str) -> None:
    reader = VideoReader(path)
    first = reader.next()
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(reader[0], kept)


def test_a_file_object_is_read_from_its_position_and_may_be_closed(path: str) -> None:
    file = io.BytesIO(b"before" + Path(path).read_bytes())
    file.seek(6)
    reader = VideoReader(file)
    file.close()
    assert stamps(reader.get_batch([0, 59])) == [0, 59]
    with pytest.raises(UsageError, match="mode 'rb'"):
        VideoReader(io.StringIO("text"))


def test_a_gpu_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=r"ctx=gpu\(1\): framefeed decodes on the CPU: use ctx=cpu\(0\)"):
        VideoReader(path, ctx=gpu(1))
    with pytest.raises(UsageError, match=r"the class|function.*|expected cpu\(0\)"):
        VideoReader(path, ctx=cpu)  # type: ignore[arg-type]  # the wrong call


@pytest.mark.parametrize(
    ("name", "advice"),
    [("VideoLoader", "ff.ClipLoader"), ("AudioReader", "torchcodec"), ("AVReader", "VideoReader for the frames")],
)
def test_what_is_not_here_says_what_to_use(name: str, advice: str) -> None:
    with pytest.raises(UsageError, match=f"has no {name}: .*{advice}"):
        getattr(decord, name)(["a.mp4"], ctx=[cpu(0)], shape=(2, 320, 240, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 64.0}, "width: expected an integer, got 64.0"),
        ({"height": "48"}, "height: expected an integer"),
        ({"num_threads": 65}, "num_threads: expected at most 64"),
        ({"num_threads": None}, "num_threads: expected an integer"),
        ({"fault_tol": "x"}, "fault_tol: expected a number"),
    ],
)
def test_wrong_arguments_are_named(path: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        VideoReader(path, **arguments)


def test_wrong_numbers_are_named(path: str) -> None:
    reader = VideoReader(path)
    for indices in ("a", None, 3, [True], [[1], [1, 2]], [np.nan], [1, "a"], slice(0, 3), {1: 2}):
        with pytest.raises(UsageError, match="indices: expected a list of frame numbers"):
            reader.get_batch(indices)
    for lazy in ({1, 2}, map(int, [1]), (each for each in [1]), {1: 2}.keys()):
        with pytest.raises(UsageError, match=r"indices: expected a list of frame numbers, got .*: make a list of it$"):
            reader.get_batch(lazy)
    for number in (60, -61, 2**70, 1e30):
        with pytest.raises((FrameNotFound, UsageError), match="frame"):
            reader.get_batch([number])
    for source in (None, 5, ["a"], ""):
        with pytest.raises(UsageError, match=r"^uri: expected a path"):
            VideoReader(source)
    with pytest.raises(FrameNotFound, match=r"base\.mp4: pos: there is no frame 60 in 60 frames: expected 0 to 59"):
        reader.seek(60)
    assert reader._position == 0


def test_errors_are_decords_and_survive_pickling(path: str) -> None:
    assert decord.DECORDError is FramefeedError
    assert decord.DECORDLimitReachedError is CorruptMedia
    with pytest.raises(decord.DECORDError) as raised:
        VideoReader(path).seek(99)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(VideoReader(path))


def test_threads_give_the_same_frames(path: str) -> None:
    numbers = [50, 3, 3, 17]
    one, two = (VideoReader(path, num_threads=count).get_batch(numbers) for count in (0, 2))
    assert np.array_equal(one, two)


def test_a_frame_without_a_duration_ends_where_the_next_begins() -> None:
    path = clip_file("decord_vfr.flv", CLIPS["vfr.mp4"])
    assert build_index(str(path)).duration.tolist() == [0] * 5
    times = VideoReader(str(path)).get_frame_timestamp(range(5))
    assert times[:, 0].tolist() == np.float32([0, 0.033, 0.071, 0.2, 0.23]).tolist()
    assert times[:-1, 1].tolist() == times[1:, 0].tolist()
    assert times[-1, 1] > times[-1, 0]


def test_the_rate_of_one_frame_is_that_of_the_header() -> None:
    assert VideoReader(str(path_of("one.mp4"))).get_avg_fps() == 25.0


def test_a_stream_without_times_says_so() -> None:
    reader = VideoReader(str(corpus_file("raw.h264")))
    assert stamps(reader[5:7]) == [5, 6]
    with pytest.raises(TimeUnavailable, match=r"raw\.h264: "):
        reader.get_frame_timestamp(0)
    with pytest.raises(TimeUnavailable, match=r"raw\.h264: the frame rate is not known"):
        reader.get_avg_fps()


def test_a_picture_is_a_video_of_one_frame(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 12, 3), 7, np.uint8)).save(tmp_path / "a.png")
    reader = VideoReader(str(tmp_path / "a.png"))
    assert (len(reader), reader.next().tolist()) == (1, np.full((8, 12, 3), 7).tolist())


def test_bridges(path: str) -> None:
    torch = pytest.importorskip("torch")
    reader = VideoReader(path)
    native = reader.get_batch([4, 2])
    assert np.shares_memory(bridge.to_torch(native).numpy(), native)
    assert bridge.to_torch(native).shape == native.shape
    with bridge.use_torch():
        batch = reader.get_batch([4, 2])
        assert (type(batch), batch.dtype) == (torch.Tensor, torch.uint8)
        assert np.array_equal(batch.numpy(), native)
        assert reader.get_batch([]).shape == (0, 96, 128, 3)
        assert isinstance(reader[3], torch.Tensor)
        assert isinstance(reader.next(), torch.Tensor)
        assert isinstance(reader.get_frame_timestamp([1]), np.ndarray)
    assert isinstance(reader[3], decord.NDArray)


def test_a_block_gives_the_earlier_bridge_back(path: str) -> None:
    torch = pytest.importorskip("torch")
    bridge.set_bridge("torch")
    with bridge.use_torch():
        pass
    assert isinstance(VideoReader(path)[0], torch.Tensor)


def test_a_bridge_is_of_one_thread(path: str) -> None:
    pytest.importorskip("torch")
    bridge.set_bridge("torch")
    given: list[object] = []
    thread = threading.Thread(target=lambda: given.append(VideoReader(path)[0]))
    thread.start()
    thread.join()
    assert isinstance(given[0], decord.NDArray)
    bridge.reset_bridge()
    assert isinstance(VideoReader(path)[0], decord.NDArray)


def test_bridges_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mxnet", "tvm"):
        with pytest.raises(UsageError, match=f"no bridge to {name}: use 'native'"):
            bridge.set_bridge(name)
    with pytest.raises(UsageError, match="expected 'native', 'tensorflow' or 'torch', got the string 'numpy'"):
        bridge.set_bridge("numpy")
    for name in ("torch", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingDependency, match=rf"pip install 'framefeed\[{name}\]'"):
            bridge.set_bridge(name)
        with pytest.raises(MissingDependency, match=rf"bridge\.to_{name} needs {name}"):
            getattr(bridge, f"to_{name}")(np.zeros((1, 1, 3), np.uint8))


def test_scripts_import_what_decord_has(path: str) -> None:
    code = (
        "import sys\n"
        "import framefeed.compat.decord as decord\n"
        "from framefeed.compat.decord import AVReader, AudioReader, VideoLoader, VideoReader\n"
        "from framefeed.compat.decord import bridge, cpu, gpu, logging\n"
        "from framefeed.compat.decord import DECORDError, NDArray  # of decord._ffi.base and decord.ndarray\n"
        "from framefeed.compat.decord.bridge import set_bridge\n"
        "decord.logging.set_level(decord.logging.QUIET)\n"
        f"reader = decord.VideoReader({path!r}, ctx=decord.cpu(0), num_threads=1)\n"
        "assert reader.get_batch([0]).asnumpy().shape == (1, 96, 128, 3)\n"
        "assert not {'torch', 'tensorflow', 'decord', 'pyarrow'} & set(sys.modules), 'too much'\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)


def test_names_that_the_page_gives_to_other_scripts_exist(path: str) -> None:
    tables = (Path(__file__).parents[2] / "docs" / "decord.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`[^`]*?\bvideo\.([\w.]+)", tables.partition("## Beyond the reader")[2]))
    assert len(names) >= 7
    with ff.VideoDecoder(path) as video:
        for name in sorted(names):
            assert attrgetter(name)(video) is not None


def test_the_door_is_sorted() -> None:
    assert decord.__all__ == sorted(decord.__all__)
    assert bridge.__all__ == sorted(bridge.__all__)
    assert all(hasattr(decord, name) for name in decord.__all__)
