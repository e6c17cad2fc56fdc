"""Choose the output of each input of ``framefeed map``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from framefeed._names import is_url, make_absolute, refuse_url
from framefeed._shown import show_name
from framefeed.cli._io import Failed
from framefeed.errors import UsageError
from framefeed.scanning import VIDEO_SUFFIXES, is_glob, list_roots

NAME, PICTURE = "{name}", "{picture}"
"""In OUT: the name of the input without its ending; the number of a picture, of which a frame may become several."""
# Endings of inputs that their outputs keep. A .avi file has no frames at unequal distances.
_KEPT_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm")
_OTHER_SUFFIX = ".mp4"
_HIDDEN = re.compile(r"[?#]\.\.\.$")


@dataclass(frozen=True, slots=True)
class Job:
    """One input, a path or URL, and its output: a file, or a folder of pictures, which ends in a slash."""

    source: str
    out: str

    @property
    def name(self) -> str:
        """Name of the input, without the secrets of a URL; then with its output, which tells two such inputs apart."""
        shown = show_name(self.source)
        return shown if shown == self.source else f"{shown} (to {os.path.basename(self.out)})"


@dataclass(frozen=True, slots=True)
class Jobs:
    """All inputs of one command, in order."""

    jobs: Sequence[Job]
    folder: str | None = None  # folder of the outputs and their ledger; None where one input has one output
    failed: Sequence[Failed] = field(default=())  # folders that cannot be listed


def list_jobs(inputs: Sequence[str], out: str, *, as_pictures: bool) -> Jobs:
    """List the inputs (videos, folders, globs or lists), and choose their outputs.

    ``out`` is a video, a name with ``{picture}``, or a folder; for several inputs a folder, or ``folder/{name}.mp4``.
    With ``as_pictures`` outputs are folders.
    """
    refuse_url("OUT", out)
    if len(inputs) == 1 and NAME not in out and _is_one(inputs[0]):
        return Jobs([Job(inputs[0], os.path.join(out, "") if as_pictures else out)])
    folder = _find_folder(inputs, out)
    failed: list[Failed] = []
    jobs: dict[str, Job] = {}
    outputs: dict[str, str] = {}
    for source, name in _list_sources(inputs, folder, failed):
        job = Job(source, _choose_output(name, folder, out, as_pictures=as_pictures))
        if jobs.setdefault(source, job) is not job:
            continue  # listed twice
        other = outputs.setdefault(job.out, source)
        if other != source:
            raise UsageError(
                f"{other} and {source} would both be written to {job.out}: map them with two commands, into two folders"
            )
    if not jobs:
        raise UsageError(f"no videos in {', '.join(inputs)}: expected files with an ending such as .mp4, .mkv or .avi")
    taken = {os.path.realpath(source) for source in jobs}
    for job in jobs.values():
        if os.path.realpath(job.out) in taken:
            raise UsageError(f"{job.out} is an input of this command, and is not overwritten: choose another folder")
    return Jobs(list(jobs.values()), folder, failed)


def _is_one(path: str) -> bool:
    """Whether an input is one video, and not a folder, a glob or a list."""
    if os.path.isdir(path):
        return False
    return _is_named(path) or list_roots([path]).paths == [make_absolute(path)]


def _is_named(path: str) -> bool:
    return is_url(path) or (os.path.isfile(path) and os.path.splitext(path)[1].lower() in VIDEO_SUFFIXES)


def _find_folder(inputs: Sequence[str], out: str) -> str:
    what = f"{len(inputs)} inputs" if len(inputs) > 1 else f"the folder or list {inputs[0]}"
    if NAME in out:
        folder = os.path.dirname(out)
        if NAME in folder:
            raise UsageError(f"expected {NAME} in the last part of OUT, as in out/{NAME}.mp4, got {out}")
        return folder or os.curdir
    if PICTURE in out:
        raise UsageError(
            f"with {what}, OUT needs the name of each video too, as in out/{NAME}_{PICTURE}.mp4, got {out}"
        )
    if os.path.splitext(out)[1].lower() in VIDEO_SUFFIXES and not os.path.isdir(out) and not out.endswith(os.sep):
        raise UsageError(
            f"with {what}, OUT is a folder, and {out} has the ending of a video: name a folder, or "
            f"{NAME}{os.path.splitext(out)[1]} in it"
        )
    if os.path.lexists(out) and not os.path.isdir(out):
        raise UsageError(f"with {what}, OUT is a folder, and {out} is a file: name another one")
    return out


def _list_sources(inputs: Sequence[str], folder: str, failed: list[Failed]) -> Iterator[tuple[str, str]]:
    """Yield the path of each input, and its name relative to the folder that it was found in."""
    for root in inputs:
        is_folder = os.path.isdir(root)
        if _is_named(root) or (len(inputs) > 1 and _is_missing_video(root)):
            yield make_absolute(root), _get_base_name(root)
            continue
        listing = list_roots([root], suffixes=VIDEO_SUFFIXES)
        failed += [(path, type(error).__name__, str(error)) for path, error in listing.unlistable.items()]
        for path in listing.paths:
            # A run before this one may have written those in its own folder.
            if path not in listing.unlistable and not (is_folder and _is_own(path, folder, root)):
                yield path, os.path.relpath(path, make_absolute(root)) if is_folder else _get_base_name(path)


def _get_base_name(source: str) -> str:
    return os.path.basename(_HIDDEN.sub("", show_name(source)) if is_url(source) else source)


def _is_missing_video(path: str) -> bool:
    return not os.path.lexists(path) and not is_glob(path) and os.path.splitext(path)[1].lower() in VIDEO_SUFFIXES


def _is_own(path: str, folder: str, root: str) -> bool:
    """Whether a file is in the folder of the outputs, and that in the folder of the inputs."""
    inner, outer = (os.path.join(os.path.realpath(each), "") for each in (folder, root))
    return inner != outer and inner.startswith(outer) and os.path.realpath(path).startswith(inner)


def _choose_output(name: str, folder: str, out: str, *, as_pictures: bool) -> str:
    stem, suffix = os.path.splitext(name)
    inner, stem_alone = os.path.split(stem)
    if NAME in out:
        named = os.path.basename(out).replace(NAME, stem_alone)
        return os.path.join(folder, inner, named, "") if as_pictures else os.path.join(folder, inner, named)
    if as_pictures:
        return os.path.join(folder, stem, "")
    return os.path.join(folder, stem + (suffix if suffix.lower() in _KEPT_SUFFIXES else _OTHER_SUFFIX))
