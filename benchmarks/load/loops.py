"""Loops over the same clips, as users write them; run as a program, which itself imports no framefeed.

    python -P loops.py LOOP SPECIFICATION

The specification is a JSON file (`benchmarks/load/programs.py`). The program prints a word at each mark, "ready" after
its imports, "first" and "done", and waits for a line of input after it, so that the bench can read the clocks. Global
names may be set beforehand (`runpy`): ``DataLoader``, so that the same script runs under another class, and
``framefeed`` for the loops over ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

Spec = dict[str, Any]
Clip = tuple[str, list[int]]
Begin = Callable[[], Iterable[Any]]
"""Starts an epoch: batches, uint8 [B, T, 3, H, W], or float32 in [0, 1]."""


def prepare_torch(spec: Spec, read: Callable[[Clip], Any]) -> Begin:
    """Prepare torch's DataLoader, or the class that is given, over a data set of clips."""
    from torch.utils.data import DataLoader, Dataset

    class Clips(Dataset[Any]):
        def __len__(self) -> int:
            return len(spec["clips"])

        def __getitem__(self, position: int) -> Any:
            return read(spec["clips"][position])

    loader_class = globals().get("DataLoader", DataLoader)
    return lambda: loader_class(Clips(), batch_size=spec["batch"], num_workers=spec["workers"])


def prepare_decord2(spec: Spec) -> Begin:
    """Prepare decord2 with its own resize, a reader anew for each clip."""
    import decord

    decord.bridge.set_bridge("torch")

    def read(clip: Clip) -> Any:
        reader = decord.VideoReader(clip[0], width=spec["side"], height=spec["side"], num_threads=1)
        return reader.get_batch(clip[1]).permute(0, 3, 1, 2)

    return prepare_torch(spec, read)


def prepare_torchcodec(spec: Spec, *, resizes_itself: bool, is_mapped: bool = False, seek_mode: str = "exact") -> Begin:
    """Prepare TorchCodec, a decoder anew for each clip; resized by itself, or by torch, as most training does."""
    import torch
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    size = (spec["side"], spec["side"])
    options: dict[str, Any] = {"transforms": [Resize(size)]} if resizes_itself else {}
    mappings: dict[str, str] = {}
    if is_mapped:
        with open(spec["mappings"], encoding="utf-8") as file:
            mappings = json.load(file)
    else:
        options["seek_mode"] = seek_mode

    def read(clip: Clip) -> Any:
        own = {"custom_frame_mappings": mappings[clip[0]]} if is_mapped else {}
        frames = VideoDecoder(clip[0], **options, **own).get_frames_at(clip[1]).data
        if resizes_itself:
            return frames
        return torch.nn.functional.interpolate(frames, size, mode="bilinear", antialias=True)

    return prepare_torch(spec, read)


def prepare_spdl(spec: Spec) -> Begin:
    """Prepare SPDL's pipeline of threads: the window of a clip is demuxed, and decoded where a frame is wanted."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    side = spec["side"]
    scale = f"scale={side}:{side}:flags=bilinear,format=pix_fmts=rgb24"

    def read(clip: tuple[str, list[float], list[int]]) -> Any:
        path, window, selection = clip
        packets = spdl.io.demux_video(path, timestamp=tuple(window))
        frames = spdl.io.sample_decode_video(packets, selection, filter_desc=scale)
        return spdl.io.to_numpy(spdl.io.convert_frames(frames)).transpose(0, 3, 1, 2)

    def begin() -> Iterator[Any]:
        import numpy as np

        builder = PipelineBuilder().add_source(iter(spec["windows"]))
        builder = builder.pipe(read, concurrency=spec["workers"], output_order="input")
        pipeline = builder.aggregate(spec["batch"]).pipe(np.stack).add_sink(2).build(num_threads=spec["workers"])
        with pipeline.auto_stop():
            yield from pipeline

    return begin


def prepare_framefeed(spec: Spec, kind: str) -> Begin:
    """Prepare our loader, over the plan that the clips are from; the package is a global name."""
    package: Any = globals()["framefeed"]
    # Each is imported at its first use: now, as by a user's script.
    open_catalog, rule, plan_clips, loader = package.Catalog.open, package.Dense, package.plan_clips, package.ClipLoader

    def begin() -> Iterator[Any]:
        options = {"clips_per_video": spec["clips_per_video"], "seed": spec["seed"], "size": (spec["side"],) * 2}
        plan = plan_clips(open_catalog(spec["catalog"]), rule(spec["frames"], stride=spec["stride"]), **options)
        batches = loader(plan, batch_size=spec["batch"], workers=spec["workers"], kind=kind)
        return (batch.data for batch in batches)

    return begin


LOOPS: dict[str, Callable[[Spec], Begin]] = {
    "framefeed threads": partial(prepare_framefeed, kind="threads"),
    "framefeed processes": partial(prepare_framefeed, kind="processes"),
    "decord2": prepare_decord2,
    "torchcodec exact": partial(prepare_torchcodec, resizes_itself=True),
    "torchcodec approximate": partial(prepare_torchcodec, resizes_itself=True, seek_mode="approximate"),
    "torchcodec mappings": partial(prepare_torchcodec, resizes_itself=True, is_mapped=True),
    "torchcodec exact, resized by torch": partial(prepare_torchcodec, resizes_itself=False),
    "torchcodec approximate, resized by torch": partial(
        prepare_torchcodec, resizes_itself=False, seek_mode="approximate"
    ),
    "torchcodec mappings, resized by torch": partial(prepare_torchcodec, resizes_itself=False, is_mapped=True),
    "spdl": prepare_spdl,
}


def say(word: str) -> None:
    """Print a mark, and wait until the bench has seen it."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def prepare_copying() -> Callable[[Any, Iterable[int]], list[Any]]:
    """Prepare to copy some clips of a batch, which itself must not stay."""
    import numpy as np

    return lambda batch, slots: [np.asarray(batch[slot]).copy() for slot in slots]


def main() -> None:
    """Run a loop, as far as the specification says."""
    with open(sys.argv[2], encoding="utf-8") as file:
        spec = json.load(file)
    begin = LOOPS[sys.argv[1]](spec)
    copy = prepare_copying() if spec["dump"] else None
    say("ready")
    kept, position, every = list[Any](), 0, spec.get("every", 1)
    for number, batch in enumerate(begin(), 1):
        if number == 1:
            say("first")
        if copy is not None:
            kept += copy(batch, range(-position % every, len(batch), every))
        position += len(batch)
        if number == spec["most_batches"]:
            break
    say("done")
    if spec["dump"]:
        import numpy as np

        np.save(spec["dump"], np.stack(kept))


if __name__ == "__main__":
    main()
