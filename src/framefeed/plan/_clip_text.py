"""Write planned clips as JSON, and read them back.

A text may come from anywhere. Each value is read, written again, and compared with what was given: so a type, a length
or a form that is not written is refused, and a clip has one text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from functools import partial
from itertools import groupby, pairwise
from math import isnan, nan
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np

from framefeed._arrays import AnyArray
from framefeed._checks import MAX_INT64, describe_value, expected
from framefeed._shown import drop_query
from framefeed._values import MISSING_PTS
from framefeed.errors import UsageError
from framefeed.media import ImageSequence, list_versions
from framefeed.plan._rules import MOST_FRAMES
from framefeed.request import OnDamaged, OutputSpec, Placement

FORMAT = 1
"""Rises if a text has other keys, or one of them another meaning."""
NUMBERS = ("position", "row", "line")
_MOST_CHARACTERS = 2**24
"""Of a text: `MOST_FRAMES` uneven frames take 6 million, and the names of as many pictures about as many."""
_ADVICE = "the text is damaged or was edited: make it again with clip.to_json()"
_SPEC = {field.name: field.default for field in fields(OutputSpec)}

Values = dict[str, Any]
"""Position, row and line of a clip, or all that a text says of a take, by name."""


class _Field(NamedTuple):
    """How a value of a text is written and read; what cannot be read raises any error of `_UNREADABLE`."""

    what: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def write_clip(numbers: Values, parts: Mapping[str, Sequence[Values]]) -> str:
    """Write a clip, with the takes of each part, as JSON of ASCII characters."""
    if sum(len(take["indices"]) for takes in parts.values() for take in takes) > MOST_FRAMES:
        raise UsageError(f"to_json: a text has at most {MOST_FRAMES:,} frames, of all streams together")
    made = {name: [{key: _TAKE[key].write(take[key]) for key in _TAKE} for take in parts[name]] for name in parts}
    # Not sorted: the parts are in their order.
    clip = {"framefeed_clip": FORMAT, "versions": list_versions(), **numbers, "parts": made}
    text = json.dumps(clip, separators=(",", ":"), allow_nan=False)
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"to_json: a text has at most {_MOST_CHARACTERS:,} characters, and this has {len(text):,}")
    return text


def read_clip(text: object, *, strict: bool) -> tuple[Values, dict[str, list[Values]]]:
    """Read what `write_clip` wrote.

    Raises:
        UsageError: It is another text or, with ``strict``, of other versions.
    """
    given = _parse(text)
    if not isinstance(given, dict) or "framefeed_clip" not in given:
        raise UsageError("text: expected the text of a clip, from clip.to_json(), got other JSON")
    if type(given["framefeed_clip"]) is not int or given["framefeed_clip"] != FORMAT:
        raise UsageError(
            f"framefeed_clip: this version of framefeed reads format {FORMAT}, and the text has another: read it with "
            "the version that wrote it"
        )
    _check_keys("", given, ("framefeed_clip", "versions", *NUMBERS, "parts"))
    own = list_versions()
    _check_keys("versions.", given["versions"], own)
    for name, version in own.items():
        other = _read("versions.", name, _TEXT, given["versions"])
        if strict and other != version:
            raise UsageError(
                f"versions.{name}: the clip was planned with {other!r:.80}, and this process has {version!r}: use the "
                "same, or leave out strict=True: other versions may give other pixels"
            )
    return {name: _read("", name, _COUNT, given) for name in NUMBERS}, _read_parts(given["parts"])


def _read_parts(given: Any) -> dict[str, list[Values]]:
    if not isinstance(given, dict) or not given or ("" in given and len(given) > 1):
        raise _expected("parts", 'takes by stream, or those of the only part by ""', given)
    parts, count = dict[str, list[Values]](), 0
    for name, takes in given.items():
        if not isinstance(takes, list) or not takes:
            raise _expected("parts", "a list of takes for each part", takes)
        parts[name] = []
        for number, take in enumerate(takes):
            parts[name].append(_read_take(f"parts[{name!r:.80}][{number}].", take))
            count += len(parts[name][-1]["indices"])
            if count > MOST_FRAMES:
                raise _expected("parts", f"at most {MOST_FRAMES:,} frames, of all streams together", given)
    return parts


def _read_take(key: str, take: Any) -> Values:
    _check_keys(key, take, _TAKE)
    values = {name: _read(key, name, field, take) for name, field in _TAKE.items()}
    count, placement = len(values["indices"]), values["placement"]
    if not count or values["indices"].min() < 0:
        raise _expected(f"{key}indices", "at least one frame number, and none below 0", take["indices"])
    for name, value in values.items():
        if isinstance(value, np.ndarray) and len(value) != count:
            raise _expected(key + name, f"{count} values, as many as indices", take[name])
    if placement is not None and placement.box[2:] != values["output"].size:
        raise _expected(f"{key}placement", "a box of the size of output", take["placement"])
    return values


def _read(key: str, name: str, field: _Field, given: Mapping[str, Any]) -> Any:
    try:
        value = field.read(given[name])
        if _dump(field.write(value)) == _dump(given[name]):
            return value
    except _UNREADABLE:
        pass
    raise _expected(key + name, field.what, given[name])


def _expected(key: str, what: str, given: Any) -> UsageError:
    # Without its elements: nested ones may have no `repr`.
    kind = f"a {type(given).__name__} of {len(given)}" if isinstance(given, list | dict) else describe_value(given)
    return UsageError(f"{key}: expected {what}, got {kind}: {_ADVICE}")


def _parse(text: object) -> Any:
    if not isinstance(text, str):
        raise expected("text", "the text of a clip, from clip.to_json()", text)
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"text: expected at most {_MOST_CHARACTERS:,} characters, got {len(text):,}: {_ADVICE}")

    def make_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in pairs:
            if name in made:
                raise UsageError(f"{name[:80]}: is there twice: {_ADVICE}")
            made[name] = value
        return made

    def refuse_constant(name: str) -> NoReturn:
        raise UsageError(f"text: {name} is no number of JSON: {_ADVICE}")

    try:
        return json.loads(text, object_pairs_hook=make_dict, parse_constant=refuse_constant)
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:  # also for an integer of more than 4,300 digits
        raise UsageError(f"text: cannot be read as JSON ({error}): {_ADVICE}") from None


def _check_keys(key: str, given: Any, names: Iterable[str]) -> None:
    if not isinstance(given, dict):
        raise _expected(key.rstrip("."), "an object", given)
    for name in sorted(given.keys() ^ set(names)):
        raise UsageError(
            f"{key}{name[:80]}: {'is no key of this format' if name in given else 'is missing'}: {_ADVICE}"
        )


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, sort_keys=True)


# --- values -------------------------------------------------------------------------------------------


def _write_column(column: AnyArray) -> list[Any]:
    """Write numbers, or differences of integers, where three that are equal, or more, are [value, count]."""
    values: list[Any] = column.tolist()
    if column.dtype == np.int64:
        known = [0, *(value for value in values if value != MISSING_PTS)]
        steps = iter([after - before for before, after in pairwise(known)])
        values = [None if value == MISSING_PTS else next(steps) for value in values]
    elif column.dtype == np.float64:
        values = [None if isnan(value) else value for value in values]
    runs = (list(run) for _, run in groupby(values, repr))  # -0.0 is not 0.0
    return [each for run in runs for each in (run if len(run) < 3 else [[run[0], len(run)]])]


def _read_column(dtype: type, packed: list[Any]) -> AnyArray:
    values: list[Any] = []
    for each in packed:
        value, count = each if isinstance(each, list) else (each, 1)
        if count > MOST_FRAMES - len(values):
            raise ValueError
        values += [value] * count
    if dtype is np.int64:
        last = 0
        for number, step in enumerate(values):
            last += step or 0
            values[number] = MISSING_PTS if step is None else last
    elif dtype is np.float64:
        values = [nan if value is None else value for value in values]
    return np.array(values, dtype)


def _write_source(source: str | bytes | ImageSequence) -> Any:
    if isinstance(source, bytes):
        raise UsageError(
            f"to_json: the source of this clip is {len(source):,} bytes in memory, which a text does not have: store "
            "them as a file, and plan with its path"
        )
    if isinstance(source, str):
        return drop_query(source)
    fps = source.fps and source.fps.as_integer_ratio()
    return {"folder": source.folder, "paths": source.paths, "fps": fps, "timestamps": source.timestamps}


def _read_source(given: Any) -> str | ImageSequence:
    if isinstance(given, str):
        return given
    fps = given["fps"] and Fraction(*given["fps"])
    return ImageSequence(given["folder"] or given["paths"], fps=fps, timestamps=given["timestamps"])


def _write_output(output: OutputSpec) -> Values:
    return {name: getattr(output, name) for name in _SPEC if getattr(output, name) != _SPEC[name]}


def _read_output(given: Any) -> OutputSpec:
    # Fields that are not there have their defaults: the version that wrote the text may not know them.
    values: Values = {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    spec = OutputSpec(**values)
    _check(spec.dimension_order.__eq__, "NCHW")  # plans deliver no other
    return spec


def _read_integers(given: Any) -> tuple[int, ...]:
    return tuple(np.array(given, np.int64).tolist())


def _read_placement(given: Any) -> Placement:
    size, box, fill = (_read_integers(given[name]) for name in ("size", "box", "fill"))
    (height, width), (top, left, rows, columns), _ = size, box, bytes(fill)  # from 0 to 255
    _check(bool, min(top, left) >= 0 and top + rows <= height and left + columns <= width and len(fill) == 3)
    return Placement(size, box, fill)  # type: ignore[arg-type]


def _check(is_valid: Callable[[Any], bool], value: Any) -> Any:
    if not is_valid(value):
        raise ValueError
    return value


def _checked(what: str, is_valid: Callable[[Any], bool]) -> _Field:
    return _Field(what, lambda value: value, partial(_check, is_valid))


def _optional(field: _Field) -> _Field:
    what, *calls = field
    write, read = (lambda value, call=call: None if value is None else call(value) for call in calls)
    return _Field(f"{what}, or null", write, read)


_TEXT = _checked("a text", lambda value: isinstance(value, str))
_COUNT = _checked("an integer of 0 or more, of 64 bits", lambda value: type(value) is int and 0 <= value <= MAX_INT64)
_TIME = _Field(
    "a number with a point, or null",
    lambda value: None if isnan(value) else value,
    lambda value: nan if value is None else _check(lambda each: type(each) is float, value),
)
_INTEGERS, _FLOATS, _BOOLS = (
    _Field(f"a list of {what}, or of [value, count]", _write_column, partial(_read_column, dtype))
    for what, dtype in (
        ("differences of integers of 64 bits", np.int64),
        ("finite numbers with a point, and null", np.float64),
        ("true and false", np.bool_),
    )
)
_TAKE = {
    "source": _Field("a path, a URL without user and query, or a sequence of pictures", _write_source, _read_source),
    "bytes": _optional(_COUNT),
    "fingerprint": _optional(_TEXT),
    "time_base": _Field(
        "[numerator, denominator] above 0, in lowest terms",
        Fraction.as_integer_ratio,
        lambda value: _check(lambda base: base > 0, Fraction(*_read_integers(value))),
    ),
    "indices": _INTEGERS,
    "pts": _INTEGERS,
    "seconds": _optional(_FLOATS),
    "end_seconds": _TIME,
    "pick_error_seconds": _FLOATS,
    "valid": _BOOLS,
    "segment": _INTEGERS,
    "damaged": _optional(_BOOLS),
    "on_damaged": _checked(f"one of {', '.join(get_args(OnDamaged))}", lambda value: value in get_args(OnDamaged)),
    "flipped": _checked("true or false", lambda value: isinstance(value, bool)),
    "output": _Field("fields of an OutputSpec with size=(height, width)", _write_output, _read_output),
    "placement": _optional(_Field("size, box and fill of a picture in a larger one", asdict, _read_placement)),
    "displayed": _Field(
        "[height, width]", list, lambda value: _check(lambda size: len(size) == 2, _read_integers(value))
    ),
}


def replace_sources(parts: Mapping[str, Sequence[Values]], source: Any) -> None:
    """Put other names of the same sources into takes; see ``PlannedClip.from_json``."""
    what = f"a dict by stream, of some of {list(parts)}"
    given = {"": source} if "" in parts else source
    if not isinstance(given, Mapping) or not given.keys() <= parts.keys():
        raise expected("source", what, source)
    for name, names in given.items():
        sources, takes = names if isinstance(names, list | tuple) else [names], parts[name]
        if len(sources) != len(takes):
            raise expected("source", f"{len(takes)} sources for the part {name!r}, in a list", names)
        for take, each in zip(takes, sources, strict=True):
            path = each.__fspath__() if hasattr(each, "__fspath__") and not isinstance(each, type) else each
            if not isinstance(path, str | ImageSequence):
                raise expected("source", "a path, a URL or an ImageSequence", each)
            take["source"] = path
