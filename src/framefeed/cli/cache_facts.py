"""Contents of a cache, as plain values and in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from framefeed._units import counted, readable_bytes
from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.keys import SCHEMA
from framefeed.cli.printing import table
from framefeed.decode.abilities import recipe_of
from framefeed.decode.registry import decoder_named
from framefeed.index.frame_index import FrameIndex

_SHOWN = 8
_OURS = ("pyav", "still")
_UNKNOWN = "unknown"


def facts_of(cache: FrameCache) -> dict[str, Any]:
    """Describe the contents of a cache as plain values."""
    info = cache.info()
    streams = [_stream(text) for text in info.descriptions.values()]
    readable = [stream for stream in streams if stream["is_read"]]
    return {
        "bytes_on_disk": info.bytes_on_disk,
        "files": info.num_segments,
        "frames": info.num_frames,
        "stored_bytes": info.stored_bytes,
        "raw_bytes": info.raw_bytes,
        "kinds": [
            {"codec": kind.codec, "layout": kind.layout, "frames": frames, "bytes": nbytes}
            for kind, (frames, nbytes) in sorted(info.kinds.items(), key=lambda item: -item[1][1])
        ],
        "sources": len({stream["source"] for stream in streams}),
        "streams": len(streams),
        "forms": dict(Counter(stream["form"] for stream in readable)),
        "made_by": dict(Counter(stream["decoder"] for stream in readable)),
        "not_read_any_more": dict(Counter(stream["decoder"] for stream in streams if not stream["is_read"])),
        "unfinished": info.unfinished,
        "refused": info.refused,
    }


def _stream(text: str) -> dict[str, Any]:
    """Read the description of a stream, which is not trusted."""
    try:
        described = json.loads(text)
        recipe, source = described["recipe"], described["source"]
        decoder, form = str(recipe["decoder"]), str(recipe["form"])
        known = {"source": (str(source["bytes"]), str(source["fingerprint"])), "form": form, "decoder": decoder}
        return {**known, "is_read": described["schema"] == SCHEMA and _is_current(decoder)}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {"source": (_UNKNOWN, text), "form": _UNKNOWN, "decoder": _UNKNOWN, "is_read": False}


def _is_current(recipe: str) -> bool:
    """Whether a decoder with this recipe is here; of those of other packages it is unknown, and they pass."""
    for name in _OURS:
        if recipe.startswith((f"{name} ", f"{name},")):
            # Theirs is the same for every source.
            return recipe == recipe_of(decoder_named(name), cast(FrameIndex, None))
    return True


def sentences(folder: str, facts: Mapping[str, Any]) -> list[str]:
    """The same, for people."""
    lines = [_size(folder, facts)]
    if facts["kinds"]:
        rows = [("stored with", "pictures", "frames", "size", "per frame")]
        rows += [_kind(kind) for kind in facts["kinds"][:_SHOWN]]
        lines += table(rows, "llrrr", indent="  ")
        if len(facts["kinds"]) > _SHOWN:
            lines.append(f"  and {len(facts['kinds']) - _SHOWN:,} more kinds")
    lines += [_decoded_by(recipe, count) for recipe, count in facts["made_by"].items()]
    for recipe, count in facts["not_read_any_more"].items():
        lines.append(
            f"not used any more: {counted(count, 'stream')} by {recipe}, which is not the version that is installed"
        )
    if facts["unfinished"]:
        lines.append(
            f"unfinished: {counted(len(facts['unfinished']), 'file')}, being written or left by a killed process"
        )
    lines += [f"cannot be used: {name}: {why}" for name, why in facts["refused"].items()]
    return lines


def _size(folder: str, facts: Mapping[str, Any]) -> str:
    if not facts["frames"]:
        return f"{folder}: no frames"
    what = f"{counted(facts['frames'], 'frame')} of {counted(facts['sources'], 'source')}"
    disk = f"{counted(facts['files'], 'file')}, {readable_bytes(facts['bytes_on_disk'])}"
    times = f"{facts['raw_bytes'] / max(1, facts['stored_bytes']):.1f}"
    more = "" if times == "1.0" else f" ({times} times as much)"
    return f"{folder}: {what} in {disk}; without compression: {readable_bytes(facts['raw_bytes'])}{more}"


def _decoded_by(recipe: str, count: int) -> str:
    library = recipe.removeprefix("still, ")
    what = counted(count, "video stream" if library == recipe else "picture stream")
    return f"{what} decoded by {library}"


def _kind(kind: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    pixel_format, size, *_ = (*str(kind["layout"]).split(), "", "")
    pictures = f"{size} {'RGB' if pixel_format in ('rgbp', 'rgb24') else pixel_format}"
    a_frame = readable_bytes(kind["bytes"] / max(1, kind["frames"]))
    return kind["codec"], pictures, f"{kind['frames']:,}", readable_bytes(kind["bytes"]), a_frame
