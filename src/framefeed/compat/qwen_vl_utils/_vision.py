"""Fetch the pictures and videos of messages."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image

from framefeed._checks import describe_value, expected
from framefeed._values import DEFAULT_LIMITS, read_bytes
from framefeed.compat.qwen_vl_utils._rules import PAIR, check_number, choose_frames, find_size
from framefeed.decode import VideoDecoder, require_times
from framefeed.errors import UsageError
from framefeed.index import build_index, count_seconds, find_end_seconds
from framefeed.media import MediaSource
from framefeed.parallel import ordered_map
from framefeed.pictures import decode_still
from framefeed.vlm import describe_frames

Element = Mapping[str, Any]

# Patches of a side that become one token.
_MERGE = 2
# Pictures of a list that are decoded ahead.
_AHEAD = 16


def extract_vision_info(conversations: Any) -> list[Any]:
    """List the elements that are pictures or videos in a list of messages, or in several such lists."""
    if conversations and isinstance(conversations[0], Mapping):
        conversations = [conversations]
    contents = [message["content"] for conversation in conversations for message in conversation]
    elements = [element for content in contents if isinstance(content, list) for element in content]
    kinds = {"image", "image_url", "video"}
    return [element for element in elements if not kinds.isdisjoint(element) or element.get("type") in kinds]


def process_vision_info(
    conversations: Any,
    return_video_kwargs: bool = False,
    return_video_metadata: bool = False,
    image_patch_size: int = 14,
) -> tuple[Any, ...]:
    """Fetch all pictures and videos of messages, in their order, as `fetch_image` and `fetch_video` do.

    Returns:
        A list of pictures and one of videos, None where there are none; and with ``return_video_kwargs`` a dict of
        arguments for the processor.
    """
    images, videos, rates = [], [], []
    for element in extract_vision_info(conversations):
        if "image" in element or "image_url" in element:
            images.append(fetch_image(element, image_patch_size))
        elif "video" in element:
            video, rate = fetch_video(element, image_patch_size, True, return_video_metadata)
            videos.append(video)
            rates.append(rate)
        else:
            raise UsageError(f"expected image, image_url or video in an element, got {describe_value(element)}")
    arguments = {"do_sample_frames": False} | ({} if return_video_metadata else {"fps": rates})
    return (images or None, videos or None, *([arguments] if return_video_kwargs else []))


def fetch_image(ele: Element, image_patch_size: int = 14) -> Image.Image:
    """Fetch one picture, upright, on white where it has alpha, in multiples of two patches.

    Raises:
        MediaError: It cannot be read.
        UsageError: The element is wrong.
    """
    given = ele.get("image", ele.get("image_url"))
    picture = given if isinstance(given, Image.Image) else _read_picture(_find_source(given))
    if picture.mode == "RGBA":
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture)
        picture = white
    height, width = find_size(ele, picture.height, picture.width, int(image_patch_size * _MERGE))
    return picture.convert("RGB").resize((width, height))


def _find_source(given: Any) -> MediaSource:
    if not isinstance(given, str) or not given.startswith("data:"):
        return MediaSource.of(given.removeprefix("file://") if isinstance(given, str) else given)
    try:
        return MediaSource.of(b64decode(given.split("base64,", 1)[1]))
    except (IndexError, ValueError) as error:
        raise expected("image", "data:image/...;base64,... in a data URL", given[:64]) from error


def _read_picture(source: MediaSource) -> Image.Image:
    with VideoDecoder(source, dimension_order="NHWC") as decoder:
        if decoder.frame_index.stream.pixel_format != "RGBA":
            return Image.fromarray(decoder[0])
    # The decoder drops alpha.
    with source.opened() as reader:
        data = read_bytes(reader, 0, min(reader.stat().bytes, DEFAULT_LIMITS.max_packet_bytes))
    return decode_still(data, source.name, DEFAULT_LIMITS)


def fetch_video(
    ele: Element,
    image_patch_size: int = 14,
    return_video_sample_fps: bool = False,
    return_video_metadata: bool = False,
) -> Any:
    """Fetch frames of one video, or a list of pictures as one: float32 [T, C, H, W].

    Returns:
        The frames; (frames, metadata as of ``ff.vlm.metadata``) with ``return_video_metadata``; and (that, frames per
        second) with ``return_video_sample_fps``.

    Raises:
        MediaError: It cannot be read, or a frame is damaged.
        TimeUnavailable: It has no usable times.
        UsageError: The element is wrong.
    """
    load = _join_pictures if isinstance(ele.get("video"), (list, tuple)) else _load_video
    video, metadata, rate = load(ele, int(image_patch_size * _MERGE))
    result = (video, metadata) if return_video_metadata else video
    return (result, rate) if return_video_sample_fps else result


def _load_video(ele: Element, factor: int) -> tuple[torch.Tensor, dict[str, Any], float]:
    source = _find_source(ele.get("video"))
    index = build_index(source)
    require_times(index, source.name)
    try:
        numbers, size, rate = choose_frames(ele, index, factor)
    except UsageError as error:
        raise UsageError(f"{source.name}: {error}", source=source.name) from error
    with VideoDecoder(source, frame_index=index, size=size, filter="bicubic") as decoder:
        frames = decoder.get_frames_at(numbers).data
    metadata = describe_frames(count_seconds(index, numbers), find_end_seconds(index, int(numbers[-1])), size)
    return torch.from_numpy(frames).float(), metadata, rate


def _join_pictures(ele: Element, factor: int) -> tuple[torch.Tensor, dict[str, Any], float]:
    given, rate = ele["video"], check_number("sample_fps", ele.get("sample_fps", 2.0))
    if not given or not rate > 0:
        raise UsageError(f"video: expected pictures, at more than 0 a second, got {len(given)} at sample_fps={rate}")

    def fetch(picture: Any) -> torch.Tensor:
        # As there: pictures of a list are first resized to multiples of twice the factor.
        return torch.from_numpy(np.array(fetch_image({**ele, "image": picture}, factor))).permute(2, 0, 1)

    with ordered_map(fetch, given, max_in_flight=_AHEAD) as pictures:
        frames = list(pictures)
    if len(sizes := {tuple(frame.shape[1:]) for frame in frames}) > 1:
        raise UsageError(f"video: expected pictures of one size, got {sorted(sizes)} (height, width)")
    frames += frames[-1:] * (-len(frames) % PAIR)
    count, (height, width) = len(frames), frames[0].shape[1:]
    size = find_size(ele, height, width, factor, count)
    resize = partial(torch.nn.functional.interpolate, size=size, mode="bicubic", antialias=True)
    video = torch.cat([resize(frame[None].float()).clamp(0, 255).round() for frame in frames])
    raw_rate = check_number("raw_fps", ele.get("raw_fps", rate))
    facts = {"fps": raw_rate, "frames_indices": list(range(count)), "total_num_frames": count / rate * raw_rate}
    return video, facts, rate
