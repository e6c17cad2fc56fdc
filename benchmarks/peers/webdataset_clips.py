"""WebDataset, which reads members one by one, with TorchCodec on the bytes of each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import webdataset
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from framefeed.bench.baselines import SIZE

PACKAGES = ("webdataset", "torchcodec", "torch")

torch.set_num_threads(1)


def read_clips(shards: Sequence[str], clips: Mapping[int, Sequence[int]], seek_mode: str) -> Iterator[tuple[int, Any]]:
    """Read the frames that are asked for of each member, by its number; uint8 [T, 3, 224, 224] each."""

    def decode(sample: Mapping[str, Any]) -> tuple[int, Any]:
        number = int(sample["__key__"])
        decoder = VideoDecoder(
            sample["mp4"], num_ffmpeg_threads=1, seek_mode=seek_mode, transforms=[Resize((SIZE, SIZE))]
        )
        return number, decoder.get_frames_at(list(clips[number])).data.numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield from webdataset.WebDataset(list(shards), shardshuffle=False).map(decode)
