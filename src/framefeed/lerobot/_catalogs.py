"""Index the videos or pictures of a camera: a catalog that is kept in the user's cache folder."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from framefeed import errors
from framefeed._arrays import IntArray
from framefeed._files import get_user_cache
from framefeed._names import PartName
from framefeed.catalog import Catalog, SurveyOptions, make_stem
from framefeed.errors import MediaError, UnreadableMedia, UsageError
from framefeed.lerobot._episodes import Episodes
from framefeed.lerobot._files import Files
from framefeed.lerobot._info import INFO, Info
from framefeed.scanning import ListOptions, ScanRequest, scan_roots

_MOST_SHOWN = 5


def index_videos(files: Files, info: Info, episodes: Episodes, camera: str, chosen: IntArray) -> Catalog:
    """Index the videos of a camera that hold chosen episodes: a row for each, in the order of their first episodes."""
    videos = episodes.videos[camera]
    chunk, file = videos.chunk[chosen], videos.file[chosen]
    if (lacking := chosen[chunk < 0]).size:
        raise UsageError(
            f"the camera {camera!r} has no video of {_list_episodes(lacking)}: leave these out with episodes=, or plan "
            "without the camera"
        )
    pairs = list(zip(chunk.tolist(), file.tolist(), strict=True))
    name_of = {pair: info.name_video(camera, *pair) for pair in dict.fromkeys(pairs)}
    names = list(name_of.values())
    if len({*names}) < len(names):
        files.refuse(INFO, f"video_path gives several videos of the camera {camera!r} one name, such as {names[0]}")
    options = SurveyOptions(limits=files.limits, storage_options=files.storage_options)
    catalog = _scan(files, camera, names, options)
    if len(failed := catalog.failed_rows):
        name = names[int(failed[0])]
        _refuse(catalog, camera, len(failed), chosen[[name_of[pair] == name for pair in pairs]])
    return catalog


def index_pictures(files: Files, info: Info, episodes: Episodes, camera: str, chosen: IntArray) -> Catalog:
    """Index the pictures of a camera that lie in the tables, by their headers: a row a row of the chosen episodes."""
    names = list[str]()
    first_of: dict[tuple[int, int], int] = {}
    pairs = list(zip(episodes.chunk.tolist(), episodes.file.tolist(), strict=True))
    for episode, pair in enumerate(pairs):
        first_of.setdefault(pair, int(episodes.starts[episode]))
    for episode in chosen.tolist():
        table, first = files.join(info.name_table(*pairs[episode])), first_of[pairs[episode]]
        rows = range(int(episodes.starts[episode]) - first, int(episodes.starts[episode + 1]) - first)
        names += [PartName("parquet", f"{camera}/{row}", table).text for row in rows]
    options = SurveyOptions(depth="header", limits=files.limits, storage_options=files.storage_options)
    catalog = _scan(files, camera, names, options)
    if len(failed := catalog.failed_rows):
        lengths = episodes.starts[chosen + 1] - episodes.starts[chosen]
        at = int(np.cumsum(lengths).searchsorted(failed[0], side="right"))
        _refuse(catalog, camera, len(failed), chosen[at : at + 1])
    return catalog


def _scan(files: Files, camera: str, names: list[str], options: SurveyOptions) -> Catalog:
    lists = ListOptions(folder=files.root, limits=files.limits, storage_options=files.storage_options)
    request = ScanRequest(options, _make_path(files, camera, names, options), lists=lists)
    catalog = scan_roots([pa.table({"path": names})], request).catalog
    assert len(catalog) == len(names)
    return catalog


def _make_path(files: Files, camera: str, names: list[str], options: SurveyOptions) -> str | None:
    """Make the path of the catalog of some files; None where the user's cache folder cannot be written to."""
    folder = get_user_cache("lerobot")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    identity = "\n".join((files.root, camera, options.depth, repr(options.limits), *names))
    stem = make_stem(f"{os.path.basename(files.root.rstrip('/'))}-{camera}", identity)
    return os.path.join(folder, f"{stem}.parquet")


def _refuse(catalog: Catalog, camera: str, count: int, chosen: IntArray) -> None:
    name, kind, message = catalog.failures[0]
    more = f" ({count} files of this camera cannot be read)" if count > 1 else ""
    error = getattr(errors, kind, UnreadableMedia)
    kind_of_error = error if isinstance(error, type) and issubclass(error, MediaError) else UnreadableMedia
    raise kind_of_error(
        f"{message}{more}: the camera {camera!r} has {_list_episodes(chosen)} there: copy the file again, or leave the "
        "episodes out with episodes=",
        source=name,
        stage="index",
    )


def _list_episodes(numbers: IntArray) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_SHOWN].tolist()))
    more = f" and {len(numbers) - _MOST_SHOWN} more" if len(numbers) > _MOST_SHOWN else ""
    return f"episode{'s' if len(numbers) > 1 else ''} {shown}{more}"
