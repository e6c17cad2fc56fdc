"""What ``framefeed bench all`` measured, as sections of its page. Any value of the result may be missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite, nan
from typing import Any

from framefeed._shown import show_name
from framefeed._units import UNKNOWN, format_bytes, format_number, format_seconds
from framefeed.report._columns import shorten, show_full_name
from framefeed.report._files import MAX_MESSAGE, Cell, make_table, make_text_cell, remove_name
from framefeed.report._markup import Node, Section, make_element
from framefeed.report._page import make_tile

MAX_LISTED = 50
ROWS = {"media": "media", "decode": "decode", "storage": "storage", "cache": "cache", "proxies": "proxies",
        "loader": "runs"}  # fmt: skip
"""Row of the bench -> key of what it gives."""
Result = Mapping[str, Any]


def read_part(of: Result, name: str) -> Result:
    """Read an object; an empty one where it is missing."""
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def read_rows(of: Result, name: str) -> list[Result]:
    """Read a list of objects; an empty one where it is missing."""
    return [each for each in of.get(name) or () if isinstance(each, Mapping)]


def read_number(of: Result, name: str) -> float:
    """Read a number; NaN where it is missing."""
    value = of.get(name)
    return float(value) if isinstance(value, int | float) else nan


def clip_number(value: float) -> float:
    """Make 0 of a number that cannot be drawn as the length of a bar."""
    return value if isfinite(value) and value > 0 else 0.0


def format_milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, without the unit."""
    return format_number(1000 * seconds)


def write(of: Result, name: str, form: Callable[[float], str] = format_number) -> str:
    """Write a number; a dash where it is missing."""
    return form(read_number(of, name))


def _write_interval(of: Result, form: Callable[[float], str] = format_number, unit: str = "") -> str:
    interval = f" ({write(of, 'low', form)} to {write(of, 'high', form)})" if "low" in of else ""
    return f"{write(of, 'median', form)}{unit}{interval}"


def _make_name(of: Result, name: str) -> Cell:
    return make_text_cell(str(of.get(name)))


def _make_cell(of: Result, name: str, factor: float = 1) -> Cell:
    value = factor * read_number(of, name)
    return Cell(format_number(value), value)


def show(value: object, length: int = MAX_MESSAGE, join: str = ", ") -> str:
    """Show a value of a result as text, of which nothing is invisible."""
    if isinstance(value, list | tuple):
        return shorten(join.join(map(show, value)), length)
    texts = {None: "none", True: "yes", False: "no"}
    return shorten(show_full_name(texts[value] if value is None or isinstance(value, bool) else str(value)), length)


# --- sections -------------------------------------------------------------------------------------


def _make_numbers(results: Result) -> Section | None:
    """List the numbers that were measured, and the first files that failed."""
    media, storage, cache, proxies = (read_part(results, name) for name in ("media", "storage", "cache", "proxies"))
    gain, room = read_part(proxies, "gain"), read_number(read_part(results, "settings"), "space_bytes")
    fits = not read_number(cache, "bytes") > room
    holds = f"holds {show(cache.get('holds') or 'frames')}, {show(cache.get('codec') or '')}"
    tiles = [
        ("Files", write(media, "files"), write(media, "bytes", format_bytes)),
        ("Scanned", write(media, "scanned"), ""),
        ("Failed", write(media, "failed"), "of those scanned"),
        ("Clips", write(media, "clips"), f"left out: {write(media, 'left_out')}"),
        ("Storage of the media", f"{write(storage, 'media_bytes_per_second', format_bytes)}/s", "cold"),
        ("Disk for a cache", f"{write(storage, 'disk_bytes_per_second', format_bytes)}/s", "cold"),
        ("Cache", write(cache, "bytes", format_bytes), holds if fits else f"{holds}; does not fit"),
        ("Time to fill the cache", write(cache, "make_seconds", format_seconds), "estimated"),
        ("Gain by proxies", f"{write(gain, 'median')}x", f"{write(gain, 'low')} to {write(gain, 'high')}"),
        ("Proxies", write(proxies, "bytes", format_bytes), f"short side {write(proxies, 'short_side')}"),
        ("Time to make proxies", write(proxies, "make_seconds", format_seconds), "estimated"),
    ]
    bad = {"Failed": clip_number(read_number(media, "failed")) > 0, "Cache": not fits}
    made = [make_tile(*tile, is_bad=bad.get(tile[0], False)) for tile in tiles if UNKNOWN not in tile[1]]
    errors = [[*map(str, each), "", "", ""][:3] for each in media.get("errors") or () if isinstance(each, list | tuple)]
    cells = [
        [make_text_cell(name, "name"), make_text_cell(why),
         make_text_cell(remove_name(text, show_name(name)), "sentence")]
        for name, why, text in errors[:MAX_LISTED]
    ]  # fmt: skip
    table = make_table("The first files that failed", ("file", "error", "message"), cells) if cells else None
    grid = make_element("dl", *made, class_="tiles", aria_label="Numbers")
    return Section("numbers", "Numbers", grid, table) if made else None


def _make_kinds(results: Result) -> Section | None:
    """List the kinds of files, and what a clip of each costs."""
    decode, text = read_part(results, "decode"), None
    if cost := read_part(decode, "clip_cpu_seconds"):
        text = f"A clip takes {_write_interval(cost, format_milliseconds, ' ms of CPU')}, and reads "
        text += f"{write(decode, 'bytes_per_clip', format_bytes)}. Frames decoded for each frame of it: "
        text += f"{write(decode, 'decoded_frames_per_delivered')}."
    rows = [
        [_make_name(each, "kind"), _make_cell(each, "files"), _make_cell(each, "sampled"),
         _make_cell(each, "seconds", 1e3)]
        for each in read_rows(decode, "kinds")
    ]  # fmt: skip
    table = make_table("Kinds of files", ("kind", "files", "sampled", "ms a clip"), rows) if rows else None
    return Section("kinds", "Decoding, by kind of file", text, table) if text or rows else None


def _make_peers(results: Result) -> Section | None:
    """List other libraries, as their rows compare them with framefeed."""
    made: list[Node] = []
    for row in read_rows(results, "peers"):
        unit, rates = show(row.get("unit") or "clips"), ("per_second", "per_cpu_second", "num_wrong")
        rows = [[_make_name(each, "name"), *(_make_cell(each, key) for key in rates)]
                for each in read_rows(row, "contenders")]  # fmt: skip
        heads = ("library", f"{unit}/s", f"{unit}/CPU s", "wrong outputs")
        made += [make_table(show(row.get("title") or ""), heads, rows)] if rows else []
        for each in read_rows(row, "comparisons"):
            figures, unit = read_part(each, "figures"), show(each.get("unit") or "")
            texts = [f"{show(name)} {_write_interval(read_part(figures, name), unit=unit)}" for name in figures]
            made.append(make_element("p", f"{show(each.get('what'))}: {', '.join(texts)}", class_="note"))
    return Section("peers", "Other libraries", *made) if made else None


def _make_gaps(results: Result) -> Section:
    """List what was not measured and why, and what else there is to know."""
    gaps = [("stopped", "the page has what was measured until then")] if results.get("interrupted") else []
    gaps += [(name, why) for key in ("failed", "left_out") for name, why in read_part(results, key).items()]
    gaps += [(name, read_part(results, key)["why"]) for name, key in ROWS.items() if read_part(results, key).get("why")]
    explained = {name.partition(",")[0] for name, _ in gaps}
    gaps += [(name, "not measured") for name, key in ROWS.items() if not results.get(key) and name not in explained]
    gaps += [("decode", each) for each in read_part(results, "decode").get("failed") or ()]
    gaps += [("note", note) for note in results.get("notes") or ()]
    items = [
        make_element("li", make_element("b", f"{show(name)}: "), make_element("bdi", show(why)))
        for name, why in gaps[:MAX_LISTED]
    ]
    return Section(
        "gaps", "What was not measured", make_element("ul", *items, class_="remarks") if items else "All was measured."
    )


_NAMES = {"has_random_draws": "other frames each epoch", "seconds": "time to measure",
          "space_bytes": "free space for a cache", "step_seconds": "a training step"}  # fmt: skip
_UNSHOWN = {"is_catalog", "root", "is_step_given", "is_space_given", "holds_lock", "transform_seconds"}
"""Settings that only programs read."""


def _make_settings(results: Result) -> Section | None:
    """List the settings of the run."""
    rows, settings = [], read_part(results, "settings")
    for key, value in settings.items():
        if key in _UNSHOWN:
            continue
        form = {"seconds": format_seconds, "bytes": format_bytes}.get(key.rpartition("_")[2])
        text = show(value, join=" \N{MULTIPLICATION SIGN} " if key == "size" else ", ")
        shown = make_element("bdi", write(settings, key, form) if form and value is not None else text)
        head = make_element("th", _NAMES.get(key) or show(key).replace("_", " "), scope="row")
        rows.append(make_element("tr", head, make_element("td", shown)))
    table = make_element("table", make_element("tbody", *rows), class_="numbers settings")
    return Section("settings", "Settings of the run", make_element("figure", table)) if rows else None


def make_measured_sections(results: Result) -> list[Section]:
    """Make the sections of all that was measured, and of what was not."""
    makes = (_make_numbers, _make_kinds, _make_peers, _make_gaps, _make_settings)
    return [section for section in (make(results) for make in makes) if section is not None]


_FORMS = {"cores": "{} cores", "memory_gib": "{} GiB of memory", "python": "Python {}",
          "load_average": "load {} at the start",
          "cores_of_others": "{} cores used by other programs meanwhile"}  # fmt: skip


def describe_machine(results: Result) -> Iterator[str]:
    """Say in sentences how long it took, and on which machine, with which versions."""
    machine = read_part(results, "machine")
    took = f" in {write(results, 'seconds', format_seconds)}" if "seconds" in results else ""
    yield f"Made by framefeed bench all{took}."
    facts = [_FORMS.get(name, "{}").format(show(value)) for name, value in machine.items() if name != "packages"]
    versions = {**read_part(machine, "packages"), **read_part(results, "versions")}
    for each in (facts, [f"{show(name)} {show(version)}" for name, version in versions.items()]):
        if each:
            yield f"{', '.join(each)}."
