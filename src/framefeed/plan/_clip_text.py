"""Write planned clips as JSON, and read them back.

A text may come from anywhere. Each value is read, written again, and compared with what was given: so a type, a length
or a form that is not written is refused, and a clip has one text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from itertools import groupby
from math import isnan, nan
from typing import Any, get_args

import numpy as np

from framefeed._arrays import AnyArray
from framefeed._checks import expected
from framefeed._shown import drop_query
from framefeed.errors import UsageError
from framefeed.media import ImageSequence, list_versions
from framefeed.plan._rules import MOST_FRAMES
from framefeed.request import DecodeRequest, OnDamaged, OutputSpec, Placement

FORMAT = 1
"""Rises if a text has other keys, or one of them another meaning."""
_ADVICE = "the text is damaged or was edited: make it again with clip.to_json()"
_TOO_MANY = f"a text has at most {MOST_FRAMES:,} frames, of all streams together"
_SPEC = asdict(OutputSpec())
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_dump = partial(json.dumps, separators=(",", ":"), allow_nan=False)

Values = dict[str, Any]
"""Position, row and line of a clip, or all that a text says of a take, by name."""


def write_clip(numbers: Values, parts: Mapping[str, Sequence[Values]]) -> str:
    """Write a clip, with the takes of each part, as JSON of ASCII characters."""
    if sum(len(take["indices"]) for takes in parts.values() for take in takes) > MOST_FRAMES:
        raise UsageError(f"to_json: {_TOO_MANY}")
    made = {name: [{key: _write(take[key]) for key in _TAKE} for take in takes] for name, takes in parts.items()}
    # Not sorted: the parts are in their order.
    return _dump({"framefeed_clip": FORMAT, "versions": list_versions(), **numbers, "parts": made})


def read_clip(text: object, *, strict: bool) -> tuple[Values, dict[str, list[Values]]]:
    """Read what `write_clip` wrote; raise UsageError for other texts and, with ``strict``, for other versions."""
    if not isinstance(text, str):
        raise expected("text", "the text of a clip, from clip.to_json()", text)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:  # also for an integer of more than 4,300 digits
        raise UsageError(f"text: cannot be read as JSON ({error}): {_ADVICE}") from None
    number = given.pop("framefeed_clip", None) if isinstance(given, dict) else None
    if type(number) is not int or number != FORMAT:
        raise UsageError(f"framefeed_clip: expected {FORMAT}: the text is no clip, or of another version of framefeed")
    own = list_versions()
    for name, version in _read("versions.", given.pop("versions", None), dict.fromkeys(own, str)).items():
        if strict and version != own[name]:
            raise UsageError(
                f"versions.{name}: the clip was planned with {version!r:.80}, and this process has {own[name]!r}: use "
                "the same, or leave out strict=True: other versions may give other pixels"
            )
    takes_of = given.pop("parts", None)
    numbers = _read("", given, dict.fromkeys(("position", "row", "line"), _read_count))
    if not isinstance(takes_of, dict) or not takes_of or ("" in takes_of and len(takes_of) > 1):
        raise _refuse("parts")
    parts, count = dict[str, list[Values]](), 0
    for name, takes in takes_of.items():
        parts[name] = []
        for each in takes if isinstance(takes, list) and takes else [None]:
            parts[name].append(_read_take(f"parts[{name!r:.80}][{len(parts[name])}].", each))
            count += len(parts[name][-1]["indices"])
            if count > MOST_FRAMES:  # before more of them are read
                raise UsageError(f"parts: {_TOO_MANY}")
    return numbers, parts


def replace_sources(parts: Mapping[str, Sequence[Values]], source: Any) -> None:
    """Put other names of the same sources into takes; see ``PlannedClip.from_json``."""
    given = {"": source} if "" in parts else source
    if not isinstance(given, Mapping) or not given.keys() <= parts.keys():
        raise expected("source", f"a dict by stream, of some of {list(parts)}", source)
    for name, names in given.items():
        sources = names if isinstance(names, list | tuple) else [names]
        if len(sources) != len(parts[name]):
            raise expected("source", f"{len(parts[name])} sources for the part {name!r}, in a list", names)
        for take, each in zip(parts[name], sources, strict=True):
            take["source"] = DecodeRequest(each, [0]).source


def _read_take(key: str, given: Any) -> Values:
    take = _read(key, given, _TAKE)
    indices, placement = take["indices"], take["placement"]
    fits = {name: len(each) == len(indices) for name, each in take.items() if isinstance(each, np.ndarray)}
    fits["indices"] = len(indices) > 0 and indices.min() >= 0
    fits["time_base"] = take["time_base"] > 0
    fits["on_damaged"] = take["on_damaged"] in get_args(OnDamaged)
    fits["displayed"] = len(take["displayed"]) == 2
    fits["placement"] = placement is None or placement.box[2:] == take["output"].size
    for name in [name for name in fits if not fits[name]]:
        raise _refuse(key + name)
    return take


def _read(key: str, given: Any, readers: Mapping[str, Callable[[Any], Any]]) -> Values:
    if not isinstance(given, dict):
        raise _refuse(key.rstrip("."))
    for name in sorted(given.keys() ^ readers.keys()):
        raise _refuse(key + name[:80])
    values: Values = {}
    for name, read in readers.items():
        try:
            values[name] = read(given[name])
            is_same = _dump(_write(values[name]), sort_keys=True) == _dump(given[name], sort_keys=True)
        except _UNREADABLE:
            is_same = False
        if not is_same:
            raise _refuse(key + name)
    return values


def _refuse(key: str) -> UsageError:
    return UsageError(f"{key}: is not what clip.to_json() writes: {_ADVICE}")


def _write(value: Any) -> Any:
    """Write a value by its type."""
    if isinstance(value, bytes):
        raise UsageError("to_json: a source is bytes in memory: store them as a file, and plan with its path")
    if isinstance(value, str):
        return drop_query(value)
    if isinstance(value, float):
        return None if isnan(value) else value
    if isinstance(value, Fraction):
        return value.as_integer_ratio()
    if isinstance(value, OutputSpec):
        return {name: each for name, each in asdict(value).items() if each != _SPEC[name]}
    if isinstance(value, ImageSequence):
        return {"folder": value.folder, "paths": value.paths, "fps": _write(value.fps), "timestamps": value.timestamps}
    if not isinstance(value, np.ndarray):
        return asdict(value) if isinstance(value, Placement) else value
    # Integers as differences, modulo 2**64, and three values that are equal, or more, as [value, count].
    column: AnyArray = np.diff(value, prepend=0) if value.dtype == np.int64 else value
    values = [None if isnan(each) else each for each in column.tolist()]
    runs = (list(run) for _, run in groupby(values, repr))  # -0.0 is not 0.0
    return [each for run in runs for each in (run if len(run) < 3 else [[run[0], len(run)]])]


def _read_column(dtype: type, given: list[Any]) -> AnyArray:
    values: list[Any] = []
    for each in given:
        value, count = each if isinstance(each, list) else (each, 1)
        if count > MOST_FRAMES - len(values):
            raise ValueError
        values += [value] * count
    column: AnyArray = np.fromiter(values, dtype)
    return column.cumsum() if dtype is np.int64 else column


def _read_source(given: Any) -> str | ImageSequence:
    if isinstance(given, str):
        return given
    fps = given["fps"] and Fraction(*given["fps"])
    return ImageSequence(given["folder"] or given["paths"], fps=fps, timestamps=given["timestamps"])


def _read_placement(given: Any) -> Placement:
    placement = Placement(**{name: _read_integers(each) for name, each in given.items()})
    (height, width), (top, left, rows, columns) = placement.size, placement.box
    is_inside = 0 <= top <= top + rows <= height and 0 <= left <= left + columns <= width
    if not is_inside or len(bytes(placement.fill)) != 3:  # from 0 to 255
        raise ValueError
    return placement


def _read_integers(given: Any) -> tuple[Any, ...]:
    return tuple(np.fromiter(given, np.int64).tolist())


def _read_count(given: Any) -> int:
    return int(np.uint64(*_read_integers([given])))  # not below 0


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda given: None if given is None else read(given)


_TAKE: dict[str, Callable[[Any], Any]] = {
    "source": _read_source,
    "bytes": _optional(_read_count),
    "fingerprint": _optional(str),
    "time_base": lambda given: Fraction(*_read_integers(given)),
    **dict.fromkeys(("indices", "pts", "segment"), partial(_read_column, np.int64)),
    "seconds": _optional(partial(_read_column, np.float64)),
    "end_seconds": lambda given: nan if given is None else float(given),
    "pick_error_seconds": partial(_read_column, np.float64),
    "valid": partial(_read_column, np.bool_),
    "damaged": _optional(partial(_read_column, np.bool_)),
    "on_damaged": str,
    "flipped": bool,
    "output": lambda given: OutputSpec(**given, dimension_order="NCHW"),  # plans deliver no other
    "placement": _optional(_read_placement),
    "displayed": _read_integers,
}
"""What reads each value of a take, or raises an error of `_UNREADABLE`."""
