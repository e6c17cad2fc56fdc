"""Make a catalog of folders, files and lists."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from framefeed._checks import check_choice, check_path, refuse_names
from framefeed._names import check_local_path, is_url, make_absolute, split_part
from framefeed._shown import show_text, strip_url
from framefeed._units import format_count
from framefeed._values import Limits, resolve_limits
from framefeed.catalog import (
    Catalog,
    Depth,
    Label,
    SurveyOptions,
    SurveyResult,
    build_catalog_data,
    check_classes,
    decode_dictionary,
    find_classes,
    find_first_rows,
    format_rate,
    hash_column,
    number_sources,
)
from framefeed.errors import MediaError, UnreadableMedia, UsageError
from framefeed.index import PROOF_RULES, TimesFrom, Verify
from framefeed.media import MediaSource, StorageOptions, check_storage_options, parse_rate
from framefeed.scanning._archives import ArchiveOptions, read_archives
from framefeed.scanning._explanations import StrPath, explain_failures, explain_lost_facts, explain_no_media
from framefeed.scanning._journal import Journal
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._listing import Root, Roots, check_roots, list_roots
from framefeed.scanning._named_parts import find_named_parts
from framefeed.scanning._objects import check_object, is_object_root
from framefeed.scanning._resuming import RunResults, read_earlier_results, survey_sources
from framefeed.scanning._rows import Listing, ScanStats, SourceGroup, SourceRows, select_sources
from framefeed.scanning._targets import Target
from framefeed.scanning._texts import TextForm, add_texts
from framefeed.scanning._walk import ImageFolders


@refuse_names("scan", {"num_workers": "use workers="})
def scan(  # noqa: PLR0913 - public: what its users ask for
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
    text_from: str | None = None,
    storage_options: StorageOptions | None = None,
    journal: StrPath | None = None,
) -> Catalog:
    """Make a catalog of many files: one row per file, also for files that cannot be read.

    With ``out``, results are written to a journal beside the catalog while the scan runs. A scan that was interrupted
    or killed continues where it stopped when it is run again. When a finished scan is run again, it opens only files
    whose size or modification time has changed. Several processes may scan to one ``out``, such as the ranks of a
    training: one scans, and the others wait, for as long as it lives, and open the result.

    Args:
        roots: Folders (by file endings), named files, globs, lists of media (text, CSV, JSON, Parquet), archives (tar,
            zip), Parquet files with media, URLs of these, buckets and prefixes of S3 (``"s3://bucket/train/"``),
            repositories and folders of the Hub of Hugging Face (``"hf://datasets/ORG/NAME/data/"``), or several of
            these. Or a table of pandas, polars or pyarrow, or one column of it with the paths.
        out: Where to save the catalog, such as ``"cat.parquet"`` or ``"s3://bucket/cat.parquet"``; by default it stays
            in memory.
        depth: "frames" finds every frame, "header" believes the header.
        verify: How frames are verified: "proof", "ends", "none" or "full", as in `build_index`. Of pictures the headers
            are read, their pixels are decoded with "full" alone.
        assume_fps: Frames per second of streams that have no usable times and declare no constant rate; their
            ``times_from`` is "assumed". Other streams keep their times. A warning says if no stream needed it.
        workers: Threads or processes; None takes the thread budget, and for objects by URL, which are waited for, more.
            The catalog is the same for any number.
        label_from: "parent" labels each file by the name of its folder, if no list labels it. A file that links put
            into two folders is then two rows.
        columns: Names of the columns of a list or table, each with the column's number from 0 or its name there:
            ``{"path": 0, "label": 1}``. Other columns keep their names. Most lists do not need it: see the guide.
            Of samples in archives, where no root is a list: ``{"label": "json.label"}``.
            ``{"media": "video"}`` is the column of a Parquet file with the media themselves.
        path_template: Path of each line, built from a list's columns: ``"{label}/{youtube_id}_{time_start:06d}.mp4"``.
        root: Store paths below this folder relative to it, so that a catalog can move with its data. Relative paths in
            lists start there too, or without it at the list's own folder, those of a table at the working folder.
        resume: Use the journal and the old catalog for files that have not changed; False opens all files again. A
            warning says if the old catalog knows more than the new one will, such as damaged frames by verify="full".
        progress: Show a bar; None shows it if standard error is a terminal. False also leaves out the line that says
            that the scan of another process is waited for.
        image_folders: "video" takes each folder of pictures as one video; None, or "image", gives a row to every
            picture.
        fps: Frames per second of these videos.
        limits: What a file may claim, None for the defaults of `Limits`; a file that claims more is a row with
            LimitExceeded.
        deadline_seconds: Longest time for one file, or None for no limit. A file that takes longer is a row with
            LimitExceeded; the next scan tries it again.
        classes: All labels in the order of their numbers, such as ``train.classes`` for a list of validation videos;
            by default the labels found, sorted. A label that is not among them is a UsageError.
        text_from: Ending of the texts beside the media, for the column ``text``: with ``".txt"`` that of ``a.mp4`` is
            in ``a.txt``, with ``".json:caption"`` the field ``caption`` of ``a.json``, a text or a list of texts. None
            reads none. Texts are read again when they change.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources". The catalog
            and what is planned over it have them in this process and its workers; no file has them.
        journal: Folder of the journal. By default it is beside the catalog, ``cat.parquet.journal``, and for one in a
            bucket in the user's cache folder.

    Returns:
        The catalog, opened from ``out`` where that is given.

    Raises:
        MissingDependency: A root is a URL, and fsspec is not installed.
        UsageError: An argument is wrong, a list cannot be understood, another process scans to ``out`` with other
            arguments, or the disk is full. Results so far are kept, and the next scan continues from them.
        MissingMedia: A manifest or a root is missing.
        UnreadableMedia: A bucket cannot be listed, or a list by URL cannot be read.
        StaleSource: While the scan ran, another writer has put another catalog into the bucket.
        ResourceExhausted: Memory or file descriptors ran out, twice. Results so far are kept, and the next scan
            continues from them.
    """
    checked = check_roots(roots)
    check_storage_options(storage_options)
    out = None if out is None else check_path("out", out, "cat.parquet")
    base = None if root is None else make_absolute(check_path("root", root, "videos/"))
    bounds = resolve_limits(limits)
    folders: ImageFolders = "image" if image_folders is None else image_folders
    rate = check_fps(folders, fps)
    assumed = None if assume_fps is None else parse_rate(assume_fps, "assume_fps")
    options = SurveyOptions(depth, verify, workers, progress, rate, bounds, deadline_seconds, assumed, storage_options)
    lists = ListOptions(columns, path_template, base, bounds, storage_options)
    known = None if classes is None else check_classes(classes)
    show_line = None if progress is False else _write_line
    kept = None if journal is None else make_absolute(check_local_path("journal", journal, "cat.parquet.journal/"))
    form = TextForm.parse(text_from)
    request = ScanRequest(options, out, label_from, resume, folders, lists, known, show_line, kept, form)
    loss = explain_lost_facts(out, options)
    if loss is not None:
        warnings.warn(loss, UserWarning, stacklevel=3)
    result = scan_roots(checked, request)
    catalog = result.catalog
    for remark in result.remarks if len(catalog) else [explain_no_media(checked, result.stats)]:
        warnings.warn(show_text(remark), UserWarning, stacklevel=3)
    if assumed is not None and depth == "frames" and len(catalog) and not count_times(catalog).get("assumed"):
        message = f"assume_fps={assume_fps} was not used: all readable files have times of their own"
        warnings.warn(message, UserWarning, stacklevel=3)
    return catalog


def _write_line(line: str) -> None:
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"framefeed: {line}\n")


def count_times(catalog: Catalog) -> dict[TimesFrom, int]:
    """Count the rows that can be read by ``times_from``, without pictures."""
    column = catalog.table.column("times_from").take(pa.array(catalog.usable_rows))
    count_of = {pair["values"]: pair["counts"] for pair in pc.value_counts(column.drop_null()).to_pylist()}
    return {times_from: count_of[times_from] for times_from in get_args(TimesFrom) if times_from in count_of}


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """Arguments of `scan`."""

    options: SurveyOptions  # depth of the survey, and its number of workers
    out: StrPath | None = None  # path of the new catalog, or None
    label_from: Literal["parent"] | None = None
    resume: bool = True  # whether to reuse earlier results
    image_folders: ImageFolders = "image"
    # Options for reading lists; paths below their folder are stored relative to it.
    lists: ListOptions = field(default_factory=ListOptions)
    classes: tuple[Label, ...] | None = None  # all labels in the order of their numbers, or None
    # Is called with a line if the scan waits for that of another process; None shows none.
    show_line: Callable[[str], object] | None = None
    journal: str | None = None  # absolute path of the journal's folder, or None
    texts: TextForm = field(default_factory=TextForm)  # which texts beside the media are read

    def __post_init__(self) -> None:
        if self.journal is not None and self.out is None:
            raise UsageError("journal is the folder of a saved scan's journal: give out (-o) too")
        check_choice("label_from", self.label_from, ("parent", None))

    @property
    def archive_options(self) -> ArchiveOptions:
        """How archives are read."""
        options = self.options
        template = self.lists.template_parts if self.lists.path_template else ()
        return ArchiveOptions(
            options.limits,
            options.workers,
            template,
            self.label_from,
            options.storage_options,
            replace(self.lists, has_numbered_classes=self.classes is not None and isinstance(self.classes[0], int)),
        )


@dataclass(frozen=True, slots=True)
class ScanResult:
    """A catalog, and statistics and warnings of its scan.

    Attributes:
        catalog: The catalog.
        stats: Statistics of the scan.
        remarks: Warnings about lists and texts.
    """

    catalog: Catalog
    stats: ScanStats
    remarks: list[str]


def scan_roots(roots: Sequence[Root], request: ScanRequest) -> ScanResult:
    """Scan roots without warnings; see `scan`."""
    target = None
    if request.out is not None:
        target = Target(request.out, request.journal, request.options.storage_options)
        target.check_roots(_list_paths(roots))
    own = frozenset[str]() if target is None else target.own
    by_parent = request.label_from == "parent"
    listing = list_roots(
        roots, image_folders=request.image_folders, without=own, by_parent=by_parent, lists=request.lists,
        text_ending=request.texts.ending,
    )  # fmt: skip
    listing = find_named_parts(read_archives(listing, request.archive_options), request.archive_options)
    only = _check_urls(roots, listing, request.options.storage_options)
    rows = _make_rows(listing, request)
    if rows.classes is not None:
        find_classes(rows.plain_labels(), rows.classes)  # Fails before hours of scanning.
    options = request.options
    request.texts.check(rows.extra.column_names)
    if target is None:
        stats, earlier = listing.stats, RunResults(rows, [])
        rows = add_texts(rows, request.texts, listing, earlier, None, request.archive_options, stats)
        surveyed = survey_sources(earlier, None, options, stats)
        catalog = Catalog(build_catalog_data(rows, surveyed, options))
        if only is not None and "MissingMedia" in catalog.table["error_type"].to_pylist():
            check_object(only)
        return _make_result(catalog, stats, listing)
    if only is not None:
        check_object(only)
    settings = {
        "depth": options.depth,
        "verify": options.verify,
        "fps": options.fps and str(options.fps),
        "limits": repr(options.limits),
        "assume_fps": format_rate(options.assume_fps),
        "rules": PROOF_RULES,
    }
    arguments = _list_arguments(roots, request, settings)
    with Journal(target.shown, settings, arguments, request.show_line, folder=target.journal) as journal:
        old = target.find_old()
        has_ended = journal.has_waited and not journal.was_left
        # The catalog that another process has just made may be that of this scan: its files are not looked at.
        if has_ended and _is_up_to_date(read_earlier_results(old, journal, options, rows), rows, request.texts.columns):
            journal.remove()
            stats = replace(listing.stats, known=len(rows.source_texts))
            return _make_result(target.open(rows), stats, listing)
        if journal.has_waited and journal.was_left and request.show_line is not None:
            request.show_line(f"{target.shown}: the other process ended before its scan was complete: taking it over")
        if not request.resume:
            journal.clear()
        stats = replace(listing.stats)
        try:
            _update_catalog(target, journal, rows, listing, request, stats, old=old if request.resume else None)
        except UnreadableMedia as error:
            if error.source is not None and is_url(error.source):
                raise  # It cannot be put there.
            # Unreadable media are rows, so this error is about a damaged column of the old catalog.
            stats = replace(listing.stats)
            _update_catalog(target, journal, rows, listing, request, stats, old=None)
        journal.remove()
    return _make_result(target.open(rows), stats, listing)


def _check_urls(roots: Sequence[Root], listing: Listing, storage_options: StorageOptions | None) -> MediaSource | None:
    """Check that URLs can be opened at all; return the object that is the only root, or None."""
    only = None
    for path in _list_paths(roots):
        if is_url(path) and not is_object_root(path):
            part = split_part(path)
            source = MediaSource.of(path if part is None else part.container, storage_options)
            only = source if len(roots) == 1 and not listing.has_list and "{" not in path else None
    return only


def _make_result(catalog: Catalog, stats: ScanStats, listing: Listing) -> ScanResult:
    """Add the warnings of the listing, and one if no row can be read."""
    remarks = [*listing.remarks]
    if listing.stats.archives_beside:
        count = format_count(listing.stats.archives_beside, "archive")
        remarks.append(f"{count} in folders with media not read: name them, or give a glob such as 'data/*.tar'")
    return ScanResult(catalog, stats, [*remarks, *explain_failures(catalog, listing)])


def _list_arguments(roots: Sequence[Root], request: ScanRequest, settings: Mapping[str, object]) -> dict[str, object]:
    """List what decides the rows of a catalog."""
    return {
        "roots": [*_list_paths(roots), *(_hash_table(root) for root in roots if isinstance(root, pa.Table))],
        **settings,
        "deadline_seconds": request.options.deadline_seconds,
        "label_from": request.label_from,
        "image_folders": request.image_folders,
        "columns": sorted((request.lists.columns or {}).items()),
        "path_template": request.lists.path_template,
        "root": request.lists.folder,
        "classes": request.classes,
        "text_from": request.texts.text,
        "resume": request.resume,
    }


def _update_catalog(
    target: Target,
    journal: Journal,
    rows: SourceRows,
    listing: Listing,
    request: ScanRequest,
    stats: ScanStats,
    *,
    old: str | None,
) -> None:
    """Survey what is new or has changed since the old catalog, and write the catalog if it changes."""
    options = request.options
    earlier = read_earlier_results(old, journal, options, rows)
    rows = add_texts(rows, request.texts, listing, earlier, journal, request.archive_options, stats)
    surveyed = survey_sources(earlier, journal, options, stats)
    # An interrupted scan may have left a pending file beside the catalog: writing removes it.
    if journal.was_left or not (earlier.is_unchanged and _is_up_to_date(earlier, rows)):
        target.save(Catalog(build_catalog_data(rows, surveyed, options)))


def _list_paths(roots: Sequence[Root]) -> list[str]:
    """List the absolute paths of the roots that are no tables."""
    return [make_absolute(os.fsdecode(root)) for root in roots if not isinstance(root, pa.Table)]


def _hash_table(table: pa.Table) -> str:
    digest = xxhash.xxh3_128(repr(table.column_names).encode())
    for column in table.columns:
        hash_column(digest, column)
    return digest.hexdigest()


def check_fps(image_folders: str, fps: float | Fraction | None) -> Fraction | None:
    """Check ``image_folders``, and that a rate is given for "video" and not for "image"."""
    check_choice("image_folders", image_folders, ("video", "image", None))
    if (image_folders == "video") != (fps is not None):
        raise UsageError(
            'expected image_folders="video" (--image-folders video) and fps=... (--fps) together: give both, or neither'
        )
    return None if fps is None else parse_rate(fps)


def _make_rows(listing: Listing, request: ScanRequest) -> SourceRows:
    """Make the rows of the catalog, and the distinct sources to open."""
    root = request.lists.folder
    columns = listing.get_columns()
    labels = columns.column("label") if "label" in columns.column_names else None
    extra = columns.drop_columns(["label"]) if labels is not None else columns
    if request.label_from == "parent" and (labels is None or labels.null_count):
        parents = listing.label_by_folder().cast(pa.string())
        filled = parents if labels is None else pc.coalesce(labels.cast(pa.string()).combine_chunks(), parents)
        labels = pa.chunked_array([filled])
    texts = listing.make_source_column(root)
    if root is not None and len(texts) and pc.all(pc.starts_with(texts, os.sep)).as_py():
        raise UsageError(
            f"root={root}: none of the {len(texts):,} paths is inside this folder, for example {texts[0].as_py()}"
        )
    groups = (group for group in listing.groups if not group.folder and group.find_local_container() is None)
    given = (name for group in groups for name in group.names if is_url(name))
    signed = {key: name for key, name in map(find_signed, given) if key != name}
    unlistable, sources, numbers = listing.unlistable, list[SourceGroup](), None
    for group in listing.groups:
        if not group.folder and not unlistable.keys().isdisjoint(group.names):
            names = [SurveyResult(error=unlistable[name]) if name in unlistable else name for name in group.names]
            sources.append(SourceGroup("", names, "sources"))
        else:
            sources.append(group)
    if columns.column_names:  # Only a manifest can name one file several times.
        numbers = number_sources(texts)
        is_first = np.zeros(len(texts), dtype=bool)
        is_first[find_first_rows(numbers)] = True
        sources = list(select_sources(sources, is_first))
    classes = request.classes or listing.get_classes(labels)
    return SourceRows(texts, numbers, labels, extra, root, classes=classes, signed=signed, sources=sources)


def find_signed(name: str) -> tuple[str, str]:
    """Find the object of a source by URL, which may lie in it, without and with its signature."""
    part = split_part(name)
    url = name if part is None else part.container
    return strip_url(url), url


def _is_up_to_date(earlier: RunResults, rows: SourceRows, others: Sequence[str] = ()) -> bool:
    """Whether the old catalog has these rows, labels and columns, and ``others`` whose values are not looked at.

    Its settings and the facts of its sources are the same.
    """
    with suppress(MediaError):
        if earlier.old is None:
            return False
        facts, header = earlier.old
        labels, extra = rows.plain_labels(), rows.extra
        names = [*extra.column_names, *others]
        if tuple(header.classes) != find_classes(labels, rows.classes) or facts.extra_names != names:
            return False
        columns = {"source": pa.chunked_array([rows.texts]), "label": labels}
        columns |= {name: decode_dictionary(extra.column(name)) for name in extra.column_names}
        return all(decode_dictionary(facts.column(name)).equals(column) for name, column in columns.items())
    return False
