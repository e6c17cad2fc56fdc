"""Read the texts beside the media of a scan into the column ``text``: those that are new or have changed.

The column ``text_version`` has what ``text_from`` was, and size and time of the file, or the version of the object.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._checks import describe_value
from framefeed._compute import pc
from framefeed._files import stat_regular
from framefeed._names import is_url, make_printable, split_part
from framefeed._shown import show_name
from framefeed._units import format_count
from framefeed._values import SourceStat
from framefeed.errors import DeadlineExceeded, LimitExceeded, MediaError, MissingMedia, UsageError
from framefeed.media import MediaSource, StorageOptions, make_file_version, read_object
from framefeed.parallel import try_again_in_shortage
from framefeed.scanning._archives import ArchiveOptions, map_containers
from framefeed.scanning._chunks import OBJECTS_AT_ONCE
from framefeed.scanning._journal import Journal
from framefeed.scanning._resuming import RunResults
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, Listing, ScanStats, SourceGroup, SourceRows, remove_query

TEXT_COLUMNS = TEXT, VERSION = "text", "text_version"
_JOURNALED = pa.schema([("source", pa.string()), (TEXT, pa.list_(pa.string())), (VERSION, pa.string())])
_MOST_BYTES = 2**20
_IS_LIST = " list"  # ends the version of a text that its file gives as a list
_FILES_AT_ONCE = 64  # of a disk, for one worker; of objects one
_PART_SIZE = 8192  # texts that are read before they are written to the journal
_Problem = tuple[str, str]  # why a text is not used, and an example
_FORM = re.compile(r"(\.[^\s/:]+)(?::(.+))?")
_MISSING = "the file is missing"
_PACKED = "archives and Parquet files have other columns for theirs"


@dataclass(frozen=True, slots=True)
class TextForm:
    """What ``text_from`` says, its ``text``: the ending of texts, "" for none, and the name of their field in JSON."""

    text: str = ""
    ending: str = ""
    field: str | None = None

    @classmethod
    def parse(cls, text_from: object) -> TextForm:
        """Parse the argument; None is for no texts."""
        if text_from is None:
            return cls()
        match = _FORM.fullmatch(text_from) if isinstance(text_from, str) and text_from.isprintable() else None
        if match is None or match.groups() == (".json", None) or match[1].lower() in ALL_MEDIA_SUFFIXES:
            raise UsageError(
                'text_from (--text-from) must be the ending of texts beside the media, ".txt", or an ending and a '
                f'field of JSON, ".json:caption", got {describe_value(text_from)}'
            )
        return cls(match[0], match[1], match[2])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of texts."""
        return TEXT_COLUMNS if self.ending else ()

    def check(self, names: Sequence[str]) -> None:
        """Check, before hours of scanning, that columns of lists and archives have other names."""
        for name in self.columns:
            if name in names:
                raise UsageError(
                    f"text_from gives a column {name!r}, and a list or archive has one already: leave text_from out, "
                    f'or give that column another name, as in columns={{"caption": "{name}"}}'
                )

    def read(self, path: str, storage_options: StorageOptions | None) -> str | list[str] | _Problem:
        """Read the text or texts of a file or object; return why there are none, and an example of it."""
        try:
            source = MediaSource.of(path, storage_options)
            read = partial(read_object, source, _MOST_BYTES)
            text = try_again_in_shortage(read, source.name, "read").decode("utf-8-sig")
            if self.field is None:
                return re.sub(r"\r?\n\Z", "", text)
            found: str | list[str] = _find_field(json.loads(text), self.field)
            "".join(found if isinstance(found, list) else [found]).encode()  # JSON may have half a character.
            return found
        except MissingMedia:
            problem = _MISSING
        except LimitExceeded:
            problem = f"the file is larger than 1 MiB ({_MOST_BYTES:,} bytes)"
        except (MediaError, DeadlineExceeded, UsageError) as error:
            return "the file is not readable", str(error)
        except UnicodeError:
            problem = "the file is not UTF-8"
        except KeyError:
            problem = f"the file has no field {self.field!r}"
        except TypeError:
            problem = f"the field {self.field!r} is neither a text nor a list of texts"
        except (ValueError, RecursionError):
            problem = "the file is not JSON"
        return problem, show_name(path)


def _find_field(value: Any, name: str) -> Any:
    """Find a field by its name, or by the names of the objects around it with dots between."""
    if not isinstance(value, dict):
        raise KeyError(name)
    head, dot, rest = name.partition(".")
    return value[name] if name in value or not dot else _find_field(value[head], rest)


def _find_texts(
    sources: Iterable[SourceGroup], ending: str, listed: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    """Find path and version of each source's text: no version of one that is not there, "" if only reading tells.

    In place of a path, parts have their own name, and sources that could not be listed have none.
    """
    for group in sources:
        for source in group.paths():
            if not isinstance(source, str) or split_part(source) is not None:
                yield source if isinstance(source, str) else "", None
                continue
            stem = source if group.kind == "image_folder" else os.path.splitext(remove_query(source))[0]
            path, version = stem + ending, None
            if is_url(path):
                version = listed.get(path, "" if group.located is None else None)
            else:
                with suppress(MediaError, ValueError):
                    facts = try_again_in_shortage(partial(stat_regular, path), path, "open")
                    version = make_file_version(SourceStat.of(facts))
            yield path, version


def add_texts(
    rows: SourceRows,
    form: TextForm,
    listing: Listing,
    earlier: RunResults,
    journal: Journal | None,
    options: ArchiveOptions,
    stats: ScanStats,
) -> SourceRows:
    """Add the columns of texts to rows, and warnings to the listing."""
    if not form.ending:
        return rows
    found = list(_find_texts(rows.sources, form.ending, listing.texts))
    now = pa.array([f"{form.text} {version}" if version else version for _, version in found], pa.string())
    known = _collect_known(earlier, journal)
    at = pc.index_in(rows.source_texts, value_set=known["source"].combine_chunks())
    before = pc.replace_substring_regex(known[VERSION].take(at).combine_chunks(), f"{_IS_LIST}$", "")
    is_known = pc.equal(now, before).fill_null(False)
    is_new = pc.and_not(now.is_valid(), is_known).to_numpy(zero_copy_only=False)
    absent = [path for path, version in found if path and version is None]
    problems = [(_MISSING if split_part(path) is None else _PACKED, show_name(path)) for path in absent]
    new = pa.table({"source": rows.source_texts, VERSION: now}).filter(pa.array(is_new))
    paths = [path for (path, _), each in zip(found, is_new, strict=True) if each]
    read, unusable, has_list = _read_texts(form, paths, new, journal, options, stats)
    problems += unusable
    at = np.where(is_new, len(known) + np.cumsum(is_new) - 1, at.fill_null(-1).to_numpy(zero_copy_only=False))
    is_null = ~is_new & ~is_known.to_numpy(zero_copy_only=False)
    taken = pa.concat_tables([known, read]).take(pa.array(at, mask=is_null))
    if not has_list and not pc.any(pc.ends_with(taken[VERSION], _IS_LIST)).as_py():
        taken = taken.set_column(1, TEXT, pc.list_element(taken[TEXT], 0))
    if rows.numbers is not None:
        taken = taken.take(pa.array(rows.numbers))
    extra = {name: rows.extra[name] for name in rows.extra.column_names} | {name: taken[name] for name in TEXT_COLUMNS}
    unused = listing.texts.keys() - {path for path, _ in found}
    listing.remarks = [each for each in listing.remarks if not each.startswith("text_from:")]  # of an attempt before
    listing.remarks += map(make_printable, _explain(problems, len(found), sorted(unused, key=os.fsencode), form.ending))
    return replace(rows, extra=pa.table(extra))


def _read_texts(
    form: TextForm,
    paths: Sequence[str],
    new: pa.Table,
    journal: Journal | None,
    options: ArchiveOptions,
    stats: ScanStats,
) -> tuple[pa.Table, list[_Problem], bool]:
    """Read texts, each with its row of ``new``; return what cannot be used too, and whether one is a list."""
    is_remote, has_list, tables, problems = any(map(is_url, paths)), False, [_JOURNALED.empty_table()], list[_Problem]()
    if options.workers is None and is_remote:
        options = replace(options, workers=OBJECTS_AT_ONCE)

    def read(chunk: Sequence[str]) -> list[str | list[str] | _Problem]:
        return [form.read(path, options.storage_options) for path in chunk]

    for start in range(0, len(paths), _PART_SIZE):
        part = new.slice(start, _PART_SIZE)
        step, stop = 1 if is_remote else _FILES_AT_ONCE, min(start + _PART_SIZE, len(paths))
        chunks = [paths[at : min(at + step, stop)] for at in range(start, stop, step)]
        results = map_containers(read, [chunk[0] for chunk in chunks], chunks, options, stats)
        texts = list(chain.from_iterable(results))
        problems += [text for text in texts if isinstance(text, tuple)]
        has_list = has_list or any(isinstance(text, list) for text in texts)
        lists = [text if isinstance(text, list) else [text] if isinstance(text, str) else None for text in texts]
        versions = [
            None if isinstance(text, tuple) or not version else version + _IS_LIST * isinstance(text, list)
            for text, version in zip(texts, part[VERSION].to_pylist(), strict=True)
        ]
        tables.append(pa.Table.from_pydict({"source": part["source"], TEXT: lists, VERSION: versions}, _JOURNALED))
        if journal is not None:
            journal.add(tables[-1].to_batches(), (), _JOURNALED)
    return pa.concat_tables(tables), problems, has_list


def _collect_known(earlier: RunResults, journal: Journal | None) -> pa.Table:
    """Collect the texts of earlier scans, the newest first, as ``_JOURNALED``."""
    parts = [] if journal is None else [part.facts.table() for part in journal.read_parts(_JOURNALED)][::-1]
    facts = None if earlier.old is None else earlier.old[0]
    if facts is not None and set(TEXT_COLUMNS) <= set(facts.names):
        columns = {name: facts.column(name).combine_chunks() for name in _JOURNALED.names}
        if pa.types.is_string(columns[TEXT].type):
            ends, texts = pa.array(range(facts.num_rows + 1), pa.int32()), columns[TEXT]
            columns[TEXT] = pa.ListArray.from_arrays(ends, texts, mask=texts.is_null())
        if [column.type for column in columns.values()] == _JOURNALED.types:
            parts.append(pa.table(columns))
    return pa.concat_tables([_JOURNALED.empty_table(), *parts])


def _explain(problems: Sequence[_Problem], num_media: int, unused: Sequence[str], ending: str) -> Iterator[str]:
    """Explain in a line for each reason how many media have no texts, and in one how many texts have no media."""
    examples = dict(reversed(problems))
    for reason, count in Counter(reason for reason, _ in problems).items():
        yield f"text_from: no text for {count:,} of {num_media:,} media: {reason}, for example {examples[reason]}"
    if unused:
        yield (
            f"text_from: {format_count(len(unused), 'text')} ({ending}) without a medium of the same name beside it, "
            f"for example {show_name(unused[0])}: rename texts like their media"
        )
