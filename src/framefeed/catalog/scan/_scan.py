"""scan: folders, files and manifests -> Catalog; catalog_of: a few sources -> Catalog in memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._checks import check_path, expected
from framefeed.catalog._assembly import Rows, Wanted, assemble, catalog_data
from framefeed.catalog._catalog import Catalog, CatalogEntry
from framefeed.catalog._catalog_file import as_text, check_target, frames_path, open_catalog
from framefeed.catalog._columns import Label, check_classes, classes_of, decoded, source_numbers
from framefeed.catalog._names import absolute, escape, is_url, printable
from framefeed.catalog._survey import Depth, Finding, SurveyOptions, survey
from framefeed.catalog._sweep import Part
from framefeed.catalog.scan._journal import Journal
from framefeed.catalog.scan._list_columns import ListOptions
from framefeed.catalog.scan._listing import Roots, list_roots, listed_roots
from framefeed.catalog.scan._resuming import Known, Sources, Tally, find_out, parts_left, what_is_known
from framefeed.catalog.scan._rows import Group, Listing
from framefeed.catalog.scan._walk import ImageFolders
from framefeed.errors import MediaError, UnreadableMedia, UsageError
from framefeed.index import TimesFrom, Verify
from framefeed.media import (
    ImageSequence,
    Limits,
    MediaSource,
    SequenceSource,
    SourceStat,
    check_url,
    exact_rate,
    limits_or_default,
)

StrPath = str | os.PathLike[str]
Source = str | bytes | os.PathLike[str] | ImageSequence | CatalogEntry
_MOST_ROOTS = 3
"""Named in a message."""


def scan(
    roots: Roots,
    *,
    out: StrPath | None = None,
    depth: Depth = "frames",
    verify: Verify = "proof",
    assume_fps: float | Fraction | None = None,
    workers: int | None = None,
    label_from: Literal["parent"] | None = None,
    columns: Mapping[str, str | int] | None = None,
    path_template: str | None = None,
    root: StrPath | None = None,
    resume: bool = True,
    progress: bool | None = None,
    image_folders: ImageFolders | None = None,
    fps: float | Fraction | None = None,
    limits: Limits | None = None,
    deadline_seconds: float | None = 60,
    classes: Sequence[str] | Sequence[int] | None = None,
) -> Catalog:
    """Make a catalog of many files: one row per file, also for files that cannot be read.

    With ``out``, results are written to a journal beside the catalog while the scan runs. A scan that was interrupted
    or killed continues where it stopped when it is run again. When a finished scan is run again, it opens only files
    whose size or modification time has changed.

    Args:
        roots: Folders (by file endings), named files, globs, lists of media (text, CSV, JSON, Parquet), or several of
            these.
        out: Where to save the catalog, such as ``"cat.parquet"``; by default it stays in memory.
        depth: "frames" finds every frame, "header" believes the header.
        verify: How frames are verified: "proof", "ends", "none" or "full", as in `build_index`. Of pictures the headers
            are read, their pixels are decoded with "full" alone.
        assume_fps: Frames per second of streams that have no usable times and declare no constant rate; their
            ``times_from`` is "assumed". Other streams keep their times. A warning says if no stream needed it.
        workers: Threads or processes; None takes the thread budget. The catalog is the same for any number.
        label_from: "parent" labels each file by the name of its folder, if no list labels it. A file that links put
            into two folders is then two rows.
        columns: Names of the columns of a list, each with the column's number from 0 or its name in the list:
            ``{"path": 0, "label": 1}``. Other columns keep their names. Most lists do not need it: see the guide.
        path_template: Path of each line, built from a list's columns: ``"{label}/{youtube_id}_{time_start:06d}.mp4"``.
        root: Store paths below this folder relative to it, so that a catalog can move with its data. Relative paths in
            lists start there too, or without it at the list's own folder.
        resume: Use the journal and the old catalog for files that have not changed; False opens all files again. A
            warning says if the old catalog knows more than the new one will, such as damaged frames by verify="full".
        progress: Show a bar; None shows it if standard error is a terminal.
        image_folders: "video" takes each folder of pictures as one video; None, or "image", gives a row to every
            picture.
        fps: Frames per second of these videos.
        limits: What a file may claim, None for the defaults of `Limits`; a file that claims more is a row with
            LimitExceeded.
        deadline_seconds: Longest time for one file, or None for no limit. A file that takes longer is a row with
            LimitExceeded; the next scan tries it again.
        classes: All labels in the order of their numbers, such as ``train.classes`` for a list of validation videos;
            by default the labels found, sorted. A label that is not among them is a UsageError.

    Returns:
        The catalog, opened from ``out`` where that is given.

    Raises:
        MissingDependency: A root is a URL, and fsspec is not installed.
        UsageError: An argument is wrong, a list cannot be understood, another process scans to ``out``, or the disk is
            full. Results so far are kept, and the next scan continues from them.
        MissingMedia: A manifest or a root is missing.
        ResourceExhausted: Memory or file descriptors ran out, twice. Results so far are kept, and the next scan
            continues from them.
    """
    names = listed_roots(roots)
    if out is not None:
        check_path("out", out, "cat.parquet")
    if root is not None:
        check_path("root", root, "videos/")
    bounds = limits_or_default(limits)
    folders: ImageFolders = "image" if image_folders is None else image_folders
    rate = fps_of(folders, fps)
    assumed = None if assume_fps is None else exact_rate(assume_fps, "assume_fps")
    options = SurveyOptions(depth, verify, workers, progress, rate, bounds, deadline_seconds, assumed)
    base = None if root is None else absolute(os.fsdecode(root))
    lists = ListOptions(columns, path_template, base)
    known = None if classes is None else check_classes(classes)
    request = ScanRequest(options, out, label_from, base, resume, folders, lists, known)
    lost = what_is_lost(out, options)
    if lost is not None:
        warnings.warn(lost, UserWarning, stacklevel=2)
    done = scanned(names, request)
    catalog = done.catalog
    for remark in done.remarks if len(catalog) else [no_media_in(names)]:
        warnings.warn(remark, UserWarning, stacklevel=2)
    if assumed is not None and depth == "frames" and len(catalog) and not count_times(catalog).get("assumed"):
        message = f"assume_fps={assume_fps} was not used: all readable files have times of their own"
        warnings.warn(message, UserWarning, stacklevel=2)
    return catalog


def no_media_in(names: Sequence[StrPath]) -> str:
    """Say that roots have no media, and what to look at."""
    if not names:
        return "no media found, because the list of roots is empty: give at least one file, folder or list of files"
    shown = ", ".join(printable(os.fsdecode(name)) for name in names[:_MOST_ROOTS])
    more = f" and {len(names) - _MOST_ROOTS} more" if len(names) > _MOST_ROOTS else ""
    return (
        f"no media found in {shown}{more}: check the path; a list needs lines, and in "
        "folders only files with the ending of a video or a picture are taken (name other files, or give a glob)"
    )


def what_is_lost(out: StrPath | None, options: SurveyOptions) -> str | None:
    """Say what the catalog at ``out`` knows and the one that replaces it will not; None if there is nothing."""
    if out is None:
        return None
    header = None
    with suppress(MediaError, ValueError):  # It is read, or refused with a message, later.
        header = open_catalog(absolute(os.fsdecode(out)))[1]
    if header is None or header.depth != "frames":
        return None
    name, advice = printable(os.fsdecode(out)), "To have both catalogs, scan to another file"
    if options.depth == "header":
        return (
            f"{name}: this scan reads headers only, and replaces a catalog with frame indexes. {advice}; to have the "
            'frame indexes again, scan with depth="frames"'
        )
    if header.verify == "full" and options.verify != "full":
        return (
            f'{name}: this scan has verify="{options.verify}", and replaces a catalog that was made with '
            f'verify="full": its counts of damaged frames are not kept. {advice}; to have the counts again, scan with '
            'verify="full" (--verify full)'
        )
    return None


def count_times(catalog: Catalog) -> dict[TimesFrom, int]:
    """Count the rows that can be read by where their times come from; pictures have none to count."""
    column = catalog.table.column("times_from").take(pa.array(catalog.usable_rows))
    counts = pc.value_counts(column.drop_null()).to_pylist()
    found = {pair["values"]: pair["counts"] for pair in counts}
    return {tier: found[tier] for tier in get_args(TimesFrom) if tier in found}


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What `scan` was asked for.

    Attributes:
        options: How much to find out, and how.
        out: Where to save the catalog, or None.
        label_from: "parent" or None.
        root: Folder that paths are stored relative to, or None.
        resume: Whether what is known from before counts.
        image_folders: "image" or "video".
        lists: How lists are read.
        classes: All labels in the order of their numbers, or None.
    """

    options: SurveyOptions
    out: StrPath | None = None
    label_from: Literal["parent"] | None = None
    root: StrPath | None = None
    resume: bool = True
    image_folders: ImageFolders = "image"
    lists: ListOptions = field(default_factory=ListOptions)
    classes: tuple[Label, ...] | None = None

    def __post_init__(self) -> None:
        if self.label_from not in (None, "parent"):
            raise expected("label_from", "'parent' or None", self.label_from)


@dataclass(frozen=True, slots=True)
class Scanned:
    """A catalog, and what it took to make it.

    Attributes:
        catalog: The catalog.
        tally: What it took.
        remarks: What to warn of about the paths and labels of lists.
    """

    catalog: Catalog
    tally: Tally
    remarks: list[str] = field(default_factory=list)


def scanned(roots: Sequence[StrPath], request: ScanRequest) -> Scanned:
    """Scan, and count; see `scan`."""
    base = None if request.root is None else absolute(os.fsdecode(request.root))
    target = None if request.out is None else _checked_target(request.out, roots)
    own = frozenset[str]() if target is None else frozenset((target, frames_path(target)))
    by_parent = request.label_from == "parent"
    listing = list_roots(
        roots, image_folders=request.image_folders, without=own, by_parent=by_parent, lists=request.lists
    )
    _check_urls(roots)
    rows = replace(_rows(listing, request.label_from, base), classes=request.classes)
    if rows.classes is not None:
        classes_of(rows.plain_labels(), rows.classes)  # before hours of scanning
    sources = _sources(listing, rows)
    if target is not None:
        done = _scanned_to(target, rows, sources, request)
    else:
        outcome = find_out(sources, Known([]), None, request.options)
        done = Scanned(Catalog(catalog_data(rows, outcome.found(), request.options)), outcome.tally)
    done.tally.repeated_files, done.tally.repeated_folders = listing.repeated_files, listing.repeated_folders
    done.tally.passed_over = listing.passed_over
    return replace(done, remarks=listing.remarks)


def _check_urls(roots: Sequence[StrPath]) -> None:
    """Raise for a URL that is named as a root what `probe` raises where no URL, or none of its kind, can be read."""
    for name in map(os.fsdecode, roots):
        if is_url(name):
            check_url(name)


def _scanned_to(target: str, rows: Rows, sources: Sources, request: ScanRequest) -> Scanned:
    options = request.options
    settings = {
        "depth": options.depth,
        "verify": options.verify,
        "fps": options.fps and str(options.fps),
        "limits": repr(options.limits),
        "assume_fps": as_text(options.assume_fps),
    }
    with Journal(target, settings) as journal:
        if not request.resume:
            journal.clear()
        try:
            tally = _brought_up_to_date(target, journal, rows, sources, options, believed=request.resume)
        except UnreadableMedia:
            # What cannot be read of media is a row: this is the old catalog, a column of which is damaged.
            tally = _brought_up_to_date(target, journal, rows, sources, options, believed=False)
        journal.remove()
    return Scanned(Catalog.open(target, rows.root), tally)


def _brought_up_to_date(
    target: str, journal: Journal, rows: Rows, sources: Sources, options: SurveyOptions, *, believed: bool
) -> Tally:
    """Find out what neither the journal nor, where it is believed, the old catalog knows, and write what is new."""
    outcome = find_out(sources, what_is_known(target if believed else None, journal, options), journal, options)
    # Where a scan did not come to its end, there may be more than the two files.
    if journal.was_left or not (outcome.is_unchanged and _stands(target, rows, options)):
        Catalog(catalog_data(rows, outcome.found(), options)).to_parquet(target)
    return outcome.tally


def catalog_of(sources: Sequence[Source], limits: Limits | None = None, verify: Verify = "proof") -> Catalog:
    """Index a few sources in memory: one row for each, in their order, also for those given twice.

    Args:
        sources: Paths, encoded bytes, image sequences, and catalog entries, whose frame index is taken as it is.
        limits: What a file may claim; None is ``Limits()``.
        verify: As ``build_index`` takes it.

    Raises:
        MediaError: A source cannot be indexed.
        UsageError: One of them is no source.
    """
    options = SurveyOptions(verify=verify, workers=0, limits=limits_or_default(limits))
    texts: list[str] = []
    findings: dict[str, Finding] = {}
    buffers: dict[str, bytes | ImageSequence] = {}
    for source in sources:
        text, opened = _identified(source)
        texts.append(text)
        if not isinstance(opened, str):
            buffers[text] = opened
        if text not in findings:
            findings[text] = _found(source, opened, options)
    return Catalog(assemble(Wanted(texts, list(findings.values()), buffers=buffers), options))


def _checked_target(out: StrPath, roots: Sequence[StrPath]) -> str:
    """Refuse early what would fail after hours of scanning."""
    if os.fsdecode(out).endswith(os.sep):
        raise UsageError(f"out={os.fsdecode(out)} names a folder: expected a file, such as cat.parquet in it")
    target = absolute(os.fsdecode(out))
    if any(absolute(os.fsdecode(name)) == target for name in roots):
        raise UsageError(f"out={target} is one of the roots that are scanned: choose another name, such as cat.parquet")
    check_target(target)
    return target


def fps_of(image_folders: str, fps: float | Fraction | None) -> Fraction | None:
    """Check that a rate is given where folders of pictures are videos, and only there.

    Raises:
        UsageError: It is not so.
    """
    if image_folders not in get_args(ImageFolders):
        raise expected("image_folders", "'video', 'image' or None", image_folders)
    if (image_folders == "video") != (fps is not None):
        raise UsageError(
            'expected image_folders="video" (--image-folders video) and fps=... (--fps) together: give both, or neither'
        )
    return None if fps is None else exact_rate(fps)


def _rows(listing: Listing, label_from: str | None, root: str | None) -> Rows:
    columns = listing.taken_columns()
    labels = columns.column("label") if "label" in columns.column_names else None
    extra = columns.drop_columns(["label"]) if labels is not None else columns
    if label_from == "parent":
        labels = _parents(listing, labels)
    texts = listing.texts(root)
    if root is not None and len(texts) and pc.all(pc.starts_with(texts, os.sep)).as_py():
        raise UsageError(
            f"root={root}: none of the {len(texts):,} paths is inside this folder, for example {texts[0].as_py()}"
        )
    # Only lines of a manifest name one file several times: folders and named files do not.
    numbers = source_numbers(texts) if columns.column_names else None
    return Rows(texts, numbers, labels, extra if extra.column_names else None, root)


def _parents(listing: Listing, labels: pa.ChunkedArray | None) -> pa.ChunkedArray:
    parents = listing.parents()
    if labels is None:
        return pa.chunked_array([parents.cast(pa.string())])
    if not labels.null_count:
        return labels
    return pa.chunked_array([pc.coalesce(labels.cast(pa.string()).combine_chunks(), parents.cast(pa.string()))])


def _sources(listing: Listing, rows: Rows) -> Sources:
    parts = [_part(group, listing.unlistable) for group in listing.groups]
    if rows.numbers is None:
        return Sources(rows.texts, parts, rows.root)
    is_first = np.zeros(len(rows.texts), dtype=bool)
    is_first[np.unique(rows.numbers, return_index=True)[1]] = True
    return Sources(rows.texts.filter(pa.array(is_first)), list(parts_left(parts, is_first)), rows.root)


def _part(group: Group, unlistable: Mapping[str, UnreadableMedia]) -> Part:
    if not group.folder and unlistable and any(name in unlistable for name in group.names):
        findings = [Finding(error=unlistable[name]) if name in unlistable else name for name in group.names]
        return Part("", findings, "sources")
    return Part(group.folder and group.folder + os.sep, group.names, group.kind)


def _stands(target: str, rows: Rows, options: SurveyOptions) -> bool:
    """Whether the catalog that was saved has these rows, given that the facts of their sources hold."""
    with suppress(MediaError):
        return _has_rows(target, rows, options)
    return False


def _has_rows(target: str, rows: Rows, options: SurveyOptions) -> bool:
    facts, header, frames = open_catalog(target)
    labels = rows.plain_labels()
    as_asked = (options.depth, options.verify, repr(options.limits), as_text(options.assume_fps))
    same = (header.depth, header.verify, header.limits, header.assume_fps) == as_asked
    same &= tuple(header.classes) == classes_of(labels, rows.classes)
    same &= (frames is None) == (header.frames_id is None)
    extra = pa.table({}) if rows.extra is None else rows.extra
    if not same or facts.extra_names != extra.column_names:
        return False
    wanted = {"source": pa.chunked_array([rows.texts]), "label": labels}
    wanted |= {name: decoded(extra.column(name)) for name in extra.column_names}
    return all(decoded(facts.column(name)).equals(column) for name, column in wanted.items())


def _identified(source: Source) -> tuple[str, str | bytes | ImageSequence]:
    """The text that stands for a source, and what to open."""
    opened = source.source if isinstance(source, CatalogEntry) else source
    media = MediaSource.of(opened)
    if media.kind == "bytes":
        return f"<{len(media.data)} bytes {media.fingerprint()}>", media.data
    if isinstance(media, SequenceSource):
        # Not its folder alone: several sequences may lie over one, with other rates.
        return f"<{escape(media.name)}, {media.sequence.digest}>", media.sequence
    if media.kind in ("path", "url"):
        return escape(media.path), media.path
    raise UsageError(f"{media.name}: an open file cannot be sent to a worker: give its path, or its bytes")


def _found(source: Source, opened: str | bytes | ImageSequence, options: SurveyOptions) -> Finding:
    known = _known(source) if isinstance(source, CatalogEntry) else None
    finding = known or survey(opened, options)
    if finding.error is not None:
        raise finding.error
    return finding


def _known(entry: CatalogEntry) -> Finding | None:
    index = entry.frame_index
    if index is None or index.identity is None:
        return None
    identity = index.identity
    return Finding(entry.info, index, SourceStat(identity.bytes, identity.mtime_ns), identity.fingerprint)
