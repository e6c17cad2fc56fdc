"""Run as a program: hold every lock of framefeed while the process forks, and find those that a child would wait for.

Prints JSON: ``made``, where locks were made, and ``left``, where those were made that are still in use in the child, as
[file, class or function]; ``same``, whether the child loads what its parent loads.
"""

from __future__ import annotations

import gc
import io
import json
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2] / "src" / "framefeed"
MADE: list[tuple[weakref.ref[Any], tuple[str, str]]] = []
"""Each lock that framefeed made, and where."""


def find_maker() -> tuple[str, str] | None:
    """Find the module, and in it the class or function, that makes a lock now."""
    frame: Any = sys._getframe(2)
    while frame is not None and "importlib" not in frame.f_code.co_filename:
        made = type(frame.f_locals.get("self"))
        if Path(frame.f_code.co_filename).is_relative_to(ROOT):
            name = frame.f_code.co_qualname.partition(".")[0]
            return Path(frame.f_code.co_filename).relative_to(ROOT).as_posix(), name
        # The constructor of a dataclass has no file.
        if frame.f_code.co_filename == "<string>" and made.__module__.startswith("framefeed."):
            return made.__module__.removeprefix("framefeed.").replace(".", "/") + ".py", made.__name__
        frame = frame.f_back
    return None


def track(make: Callable[..., Any]) -> Callable[..., Any]:
    """Have the locks that a function makes listed."""

    def make_and_list(*arguments: Any) -> Any:
        lock, maker = make(*arguments), find_maker()
        if maker is not None:
            MADE.append((weakref.ref(lock), maker))
        return lock

    return make_and_list


def hold_all(are_held: threading.Event, may_end: threading.Event, held: list[Any]) -> None:
    """Hold all locks that are free."""
    for reference, maker in list(MADE):
        lock = reference()
        if lock is not None and lock.acquire(blocking=False):
            held.append((reference, maker))
        del lock  # or this thread's frame would keep it in the child
    are_held.set()
    may_end.wait(PATIENCE_SECONDS)
    for reference, _ in held:
        lock = reference()
        if lock is not None:
            lock.release()


def find_left(held: list[Any]) -> list[tuple[str, str]]:
    """Find who made the locks that are held, and not replaced."""
    gc.collect()
    locks = [(reference(), maker) for reference, maker in held]
    return sorted({maker for lock, maker in locks if lock is not None and not lock.acquire(blocking=False)})


def make_users(folder: Path) -> Callable[[], list[Any]]:
    """Make objects of every class that has a lock and outlives a call; return a function that uses them all."""
    import torch
    from PIL import Image

    import framefeed as ff
    from framefeed.compat.torchvision import VideoClips
    from framefeed.media import MediaSource
    from framefeed.testing import ClipSpec, make_folder, write_clip

    make_folder(folder / "videos", classes=2, videos_per_class=1, seconds=1.0, fps=10, size=(48, 64))
    write_clip(str(folder / "one.mkv"), ClipSpec(num_frames=10, height=48, width=64))
    MediaSource.of("http://localhost/a.mp4").reader()  # asks for nothing; makes what reads by URL share
    decoder = ff.VideoDecoder(folder / "one.mkv")
    (folder / "frames").mkdir()
    for number in range(4):
        Image.fromarray(decoder[number].transpose(1, 2, 0)).save(folder / "frames" / f"{number}.png")
    ff.scan(folder / "videos", out=folder / "c.parquet", label_from="parent", progress=False)
    plan = ff.plan_clips(ff.Catalog.open(folder / "c.parquet"), ff.Uniform(2), seed=0, columns=["label"])
    cache = ff.FrameCache(folder / "cache", memory_bytes="1MB")
    loader = ff.ClipLoader(plan, batch_size=1, workers=0, cache=cache)
    dataset = ff.torch.ClipDataset(plan, cache=cache, on_error="skip")
    threads = ff.torch.DataLoader(dataset, num_workers=1)
    in_memory = ff.VideoDecoder(io.BytesIO((folder / "one.mkv").read_bytes()))
    sequence = ff.VideoDecoder(ff.ImageSequence(folder / "frames", fps=10))

    video = [str(folder / "one.mkv")]
    clips = VideoClips(video, 2, _precomputed_metadata=VideoClips(video, 2).metadata)

    def use() -> list[Any]:
        loader.set_epoch(0)
        torch.set_num_threads(1)
        batches = [batch.data.sum().item() for batch in loader]
        items = [item["data"].sum().item() for item in threads]
        frames = [int(each[3].sum()) for each in (decoder, in_memory, sequence)]
        return [batches, items, len(dataset.ledger), frames, int(clips.get_clip(1)[0].sum())]

    return use


def use_in_child(use: Callable[[], list[Any]], expected: list[Any]) -> str:
    signal.alarm(int(PATIENCE_SECONDS))
    return "same" if use() == expected else "other"


def main() -> None:
    threading.Lock, threading.RLock = track(threading.Lock), track(threading.RLock)
    from tests.decode.forks import Child

    with tempfile.TemporaryDirectory() as folder:
        use = make_users(Path(folder))
        expected = use()
        held: list[Any] = []
        are_held, may_end = threading.Event(), threading.Event()
        holder = threading.Thread(target=hold_all, args=(are_held, may_end, held))
        holder.start()
        are_held.wait(PATIENCE_SECONDS)

        left = json.loads(Child(lambda: json.dumps(find_left(held))).report())
        is_same = Child(lambda: use_in_child(use, expected)).report() == "same"
        may_end.set()
        holder.join()
    sys.stdout.write(json.dumps({"made": sorted({maker for _, maker in MADE}), "left": left, "same": is_same}))


if __name__ == "__main__":
    main()
