"""make_proxies: smaller copies of a catalog's media; estimate_proxies: whether they would pay."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from framefeed._checks import check_integer, check_progress, expected, showing_progress
from framefeed._files import write_errors
from framefeed._names import check_local_path, escape
from framefeed.catalog import Catalog, unpack_index
from framefeed.errors import FramefeedError, MediaError
from framefeed.media import MediaSource
from framefeed.parallel import (
    Err,
    ordered_outcomes,
    thread_budget,
)
from framefeed.proxies._estimate import ProxyEstimate, sample_kinds, sample_rest
from framefeed.proxies._folder import ProxyFolder, check_outside, check_targets, find_root
from framefeed.proxies._kinds import FAILED, Original, explain_failure, list_files, list_originals
from framefeed.proxies._making import ProxySettings, StaysItself, make_proxy

Progress = bool | Callable[[int, int], object] | None
MORE_BYTES = "its proxy would have more bytes"
_IN_FLIGHT_PER_WORKER = 4
_LEAST_SIDE, _MOST_SIDE = 16, 4096


def make_proxies(
    catalog: Catalog,
    out: str | os.PathLike[str],
    *,
    short_side: int = 256,
    gop: int = 8,
    workers: int | Literal["auto"] = "auto",
    resume: bool = True,
    progress: Progress = None,
) -> Catalog:
    """Make smaller copies of a catalog's videos and pictures, and give a catalog that reads them.

    Videos become H.264 with short distances of key frames, pictures JPEG, in the tree of their originals. Rows, labels,
    columns, frame numbers and times stay those of the originals, and so does every plan; sizes and crops are about the
    original's pictures. Each proxy is read again and compared. A file stays itself where a sample of its kind gains
    less than 1.5 times the clips a second, where its proxy would have more bytes, is not smaller or has an alpha
    channel, or where not all of its frames can be decoded: ``proxies.parquet`` in the folder says which, and why.

    Example: ``small = ff.make_proxies(catalog, "small/")``, later ``small = catalog.with_proxies("small/")``

    Args:
        catalog: A catalog with frame indexes.
        out: Folder for the proxies, outside of that of the originals.
        short_side: Rows or columns of the shorter side of a proxy. Choose it so that what your crops cut out has the
            size that you train with: for ``RandomResizedCrop(224, scale=(0.08, 1))`` that is 792.
        gop: Distance of key frames, in frames.
        workers: Number of files at once; 0 works in the calling thread; "auto" is the thread budget of the process.
        resume: Keep what an earlier run has finished, whose ``short_side`` and ``gop`` must be these. False makes all
            anew, and deletes proxies of the earlier run that are not made again.
        progress: True shows a progress bar, False none; None shows it if standard error is a terminal. Or a function,
            which is called with the number of files that are done, and of all.

    Returns:
        The catalog, as `Catalog.with_proxies` gives it.

    Raises:
        UsageError: An argument is wrong, the files cannot be written, another run writes to the folder, or the catalog
            has no frame indexes.
        ResourceExhausted: Memory, descriptors or threads ran out.
    """
    settings, threads = _check_arguments(catalog, short_side, gop, workers)
    if not isinstance(resume, bool):
        raise expected("resume", "True or False", resume)
    check_progress(progress)
    path = os.path.abspath(check_local_path("out", out, "small/"))
    originals = list_originals(catalog, short_side)
    files = list_files(catalog)
    check_outside(path, files)
    with ProxyFolder(path, asdict(settings), resume=resume) as folder:
        folder.adopt(originals)
        _drop_stale(folder, originals)
        names = folder.name(find_root(files), originals)
        check_targets(path, names, files)
        folder.sweep({os.path.dirname(os.path.join(path, name)) for name in names} | {path})
        missing = [each for each in originals if each.key not in folder.rows]
        kinds = {each.kind for each in missing if each.reason is None} - set(folder.decisions)
        with showing_progress(len(kinds), False if callable(progress) else progress, unit="kind") as show:
            sampled = sample_kinds(catalog, missing, settings, folder.decisions, threads, show)
        # Where the files of a sample could not be read, each file of the kind is asked for itself.
        decisions = {kind: each.reason for kind, each in sampled.items() if not (each.reason or "").startswith(FAILED)}
        if decisions:
            folder.decide(decisions)
        make = partial(_make_one, catalog, path, settings, folder.decisions)
        _make_all(folder, make, list(zip(originals, names, strict=True)), threads, progress)
        folder.finish([each.key for each in originals])
    return catalog.with_proxies(path)


def estimate_proxies(
    catalog: Catalog,
    *,
    short_side: int = 256,
    gop: int = 8,
    workers: int | Literal["auto"] = "auto",
    progress: Progress = None,
) -> ProxyEstimate:
    """Estimate by a sample what `make_proxies` would cost and gain; nothing is kept of it.

    Of each kind of file (codec, size, distance of key frames), parts of up to four are made. Clips of 16 frames, 4
    apart, at 224 x 224 are timed from both, and pictures at that size.

    Example: ``print(ff.estimate_proxies(catalog))``

    Args:
        catalog: A catalog with frame indexes.
        short_side: Rows or columns of the shorter side of a proxy.
        gop: Distance of key frames, in frames.
        workers: Number of files at once for which the time is estimated.
        progress: As for `make_proxies`, in kinds of files.

    Raises:
        UsageError: An argument is wrong, or the catalog has no frame indexes.
    """
    settings, threads = _check_arguments(catalog, short_side, gop, workers)
    check_progress(progress)
    originals = list_originals(catalog, short_side)
    reasons: dict[str, tuple[int, int]] = {}
    for each in originals:
        if each.reason is not None:
            count, nbytes = reasons.get(each.reason, (0, 0))
            reasons[each.reason] = count + 1, nbytes + each.bytes
    kinds = {each.kind for each in originals if each.reason is None}
    with showing_progress(len(kinds), progress, unit="kind") as show:
        sampled = sample_kinds(catalog, originals, settings, {}, threads, show)
    ordered = sorted(sampled.values(), key=lambda each: (not each.has_proxies, -each.bytes))
    rest = sample_rest(catalog, [each for each in originals if each.reason is not None])
    return ProxyEstimate(tuple(ordered), reasons, short_side, gop, max(1, threads), rest)


def _check_arguments(catalog: object, short_side: int, gop: int, workers: int | str) -> tuple[ProxySettings, int]:
    if not isinstance(catalog, Catalog):
        raise expected("catalog", "a Catalog (from ff.scan or ff.Catalog.open)", catalog)
    side = check_integer("short_side", short_side, _LEAST_SIDE, _MOST_SIDE)
    if side % 2:
        raise expected("short_side", "an even number", short_side)
    threads = thread_budget().threads if workers == "auto" else check_integer("workers", workers, 0)
    return ProxySettings(side, check_integer("gop", gop, 1)), threads


def _drop_stale(folder: ProxyFolder, originals: Sequence[Original]) -> None:
    """Forget what an earlier run made of originals that have other times now, or whose proxy is another file now."""
    for original in originals:
        row = folder.rows.get(original.key)
        if row is not None and not _is_current(folder.path, original, row):
            folder.forget(original.key)


def _is_current(out: str, original: Original, row: Mapping[str, Any]) -> bool:
    """Whether the row of an original is what this run would write."""
    if row["proxy"] is None:
        return not (row["reason"] or "").startswith(FAILED)
    if any(row[name] != value for name, value in original.times.items()):
        return False
    try:
        MediaSource.of(os.path.join(out, row["proxy"])).check_identity(unpack_index(row).identity)
    except (MediaError, ValueError, TypeError):
        return False
    return True


def _make_all(
    folder: ProxyFolder,
    make: Callable[[tuple[Original, str]], dict[str, Any]],
    named: Sequence[tuple[Original, str]],
    workers: int,
    progress: Progress,
) -> None:
    """Make what is missing, the longest first, so that workers end at about the same time."""
    missing = [item for item in named if item[0].key not in folder.rows]
    missing.sort(key=lambda item: -item[0].work)
    done = len(named) - len(missing)
    count = min(workers, len(missing))
    with (
        showing_progress(len(named), progress, unit="file") as show,
        ordered_outcomes(make, missing, workers=count, max_in_flight=_IN_FLIGHT_PER_WORKER * max(1, count)) as outcomes,
    ):
        show(done)
        for number, outcome in enumerate(outcomes, 1):
            if isinstance(outcome, Err):
                raise outcome.error
            folder.add(outcome.value)
            show(done + number)


def _make_one(
    catalog: Catalog, out: str, settings: ProxySettings, decisions: dict[str, Any], item: tuple[Original, str]
) -> dict[str, Any]:
    """Make the proxy of one original; return its row."""
    original, name = item
    row = {
        "original": escape(original.name),
        "fingerprint": original.fingerprint,
        "bytes": original.bytes,
        "kind": original.kind,
        **original.times,
    }
    reason = original.reason or decisions.get(original.kind)
    if reason is not None:
        return {**row, "reason": reason}
    path = os.path.join(out, name)
    with write_errors(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        source, index = catalog.media_source(original.row), catalog.frame_index(original.row)
        made = make_proxy(source, index, path, settings, original.fingerprint)
    except StaysItself as stays:
        return {**row, "reason": str(stays)}
    except (FramefeedError, MemoryError) as error:
        return {**row, "reason": explain_failure(error, original.name, "proxy")}
    facts = made.to_row(catalog.info(original.row))
    if facts["proxy_bytes"] > original.bytes:
        with write_errors(path):
            os.unlink(path)
        return {**row, "reason": MORE_BYTES}
    return {**row, "proxy": name, **facts}
