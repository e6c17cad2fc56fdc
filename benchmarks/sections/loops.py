"""Further loops over clips, for section D; run as `benchmarks/load/loops.py` is, whose loops they join."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

LOOPS_FILE = Path(__file__).parents[1] / "load" / "loops.py"
_SPEC: Any = importlib.util.spec_from_file_location("loops", LOOPS_FILE)
loops: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(loops)
Spec, Clip = dict[str, Any], tuple[str, list[int]]
Begin = Callable[[], Any]


def prepare_opencv(spec: Spec, *, seeks_once: bool = False) -> Begin:
    """Prepare OpenCV: a seek a frame, or one to the first of a clip; resized and made float in the worker."""
    import cv2
    import torch

    # More workers than cores are the point.
    warnings.filterwarnings("ignore", "This DataLoader will create")

    def read(clip: Clip) -> Any:
        path, ordinals = clip
        capture = cv2.VideoCapture(path)
        at, frames = -1, []
        for ordinal in ordinals:
            if at < 0 or not seeks_once:
                capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
                at = ordinal
            for _ in range(at, ordinal):
                capture.grab()
            picture, at = capture.read()[1], ordinal + 1
            frames.append(cv2.cvtColor(cv2.resize(picture, (spec["side"],) * 2), cv2.COLOR_BGR2RGB))
        capture.release()
        return torch.stack(list(map(torch.from_numpy, frames))).permute(0, 3, 1, 2).float() / 255

    return loops.prepare_torch(spec, read)


def prepare_dali(spec: Spec, *, is_reader: bool = False) -> Begin:
    """Prepare DALI on the CPU: frames by number of files in memory, or its reader; VP8, VP9 and MJPEG only."""
    import numpy as np
    import torch
    from nvidia.dali import fn, pipeline_def, types

    clips, size = spec["clips"], spec["batch"]
    data = {path: np.fromfile(path, np.uint8) for path in dict.fromkeys(path for path, _ in clips)}

    def give() -> Iterator[Any]:
        for at in range(0, len(clips), size):
            some = clips[at : at + size]
            yield [data[path] for path, _ in some], [np.array(ordinals, np.int32) for _, ordinals in some]

    def define() -> Any:
        if is_reader:
            frames, _ = fn.experimental.readers.video(
                file_list=spec["file_list"], file_list_format="frames", sequence_length=len(clips[0][1]),
                stride=clips[0][1][1] - clips[0][1][0],
            )  # fmt: skip
        else:
            encoded, numbers = fn.external_source(
                source=give(), num_outputs=2, batch=True, dtype=[types.UINT8, types.INT32], ndim=[1, 1]
            )
            frames = fn.decoders.video(encoded, frames=numbers, pad_mode="none")
        small = fn.resize(frames, size=[spec["side"]] * 2)
        return fn.crop_mirror_normalize(small, std=[255.0] * 3, output_layout="FCHW")

    def begin() -> Iterator[Any]:
        pipe = pipeline_def(define)(
            batch_size=size, num_threads=spec["workers"], device_id=None, prefetch_queue_depth=1
        )
        pipe.build()
        for _ in range(0, len(clips), size):
            (batch,) = pipe.run()
            yield torch.from_numpy(batch.as_array())

    return begin


def plan_framefeed(spec: Spec) -> Any:
    """Plan the clips that are listed; the package is a global name, and its catalog is ready."""
    package: Any = globals()["framefeed"]
    catalog = package.Catalog.open(spec["catalog"])
    entries = {str(entry.source): entry for entry in map(catalog.__getitem__, range(len(catalog)))}
    requests = [package.DecodeRequest(entries[path], indices=ordinals) for path, ordinals in spec["clips"]]
    return package.plan_requests(requests, size=(spec["side"],) * 2)


def prepare_framefeed_list(spec: Spec, batch: int | None = None) -> Begin:
    """Prepare our loader over the clips that are listed, in batches of another size where one is given."""
    package: Any = globals()["framefeed"]
    loader = package.ClipLoader
    size = batch or spec["batch"]

    def begin() -> Iterator[Any]:
        return (batch.data for batch in loader(plan_framefeed(spec), batch_size=size, workers=spec["workers"]))

    return begin


def prepare_framefeed_torch(spec: Spec, *, is_ours: bool = False) -> Begin:
    """Prepare our data set under torch's DataLoader, or ours, and a sampler that a user wrote."""
    from torch.utils.data import DataLoader, Sampler

    package: Any = globals()["framefeed"]
    dataset = package.torch.ClipDataset
    loader = package.torch.DataLoader if is_ours else DataLoader

    class InTurn(Sampler[int]):
        def __len__(self) -> int:
            return len(spec["clips"])

        def __iter__(self) -> Iterator[int]:
            return iter(range(len(self)))

    def begin() -> Iterator[Any]:
        options = {"batch_size": spec["batch"], "sampler": InTurn(), "num_workers": spec["workers"]}
        return (batch["data"] for batch in loader(dataset(plan_framefeed(spec)), **options))

    return begin


def making_float(prepare: Callable[[Spec], Begin]) -> Callable[[Spec], Begin]:
    """Make float32 tensors in [0, 1] of a loop's batches, which a training step wants, as every user does."""

    def prepare_float(spec: Spec) -> Begin:
        import torch

        begin = prepare(spec)

        def make_float(batch: Any) -> Any:
            batch = torch.as_tensor(batch)
            return batch if batch.is_floating_point() else batch.float().div_(255)

        return lambda: map(make_float, begin())

    return prepare_float


MORE: dict[str, Callable[[Spec], Begin]] = {
    "opencv": prepare_opencv,
    "opencv one-seek": partial(prepare_opencv, seeks_once=True),
    "dali frames": prepare_dali,
    "dali reader": partial(prepare_dali, is_reader=True),
    "framefeed list": prepare_framefeed_list,
    "framefeed list, clip by clip": partial(prepare_framefeed_list, batch=1),
    "framefeed under torch's DataLoader": prepare_framefeed_torch,
    "framefeed under its DataLoader": partial(prepare_framefeed_torch, is_ours=True),
}
if __name__ == "__main__":
    loops.LOOPS = {name: making_float(prepare) for name, prepare in (loops.LOOPS | MORE).items()}
    loops.main()
