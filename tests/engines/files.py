"""The hard files of the exam: what recipes write, a clip of every codec, and a folder of real media."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from framefeed.scanning import VIDEO_SUFFIXES
from tests.media.files import CODEC_CLIPS, HARD_FILES, readable_path
from tests.real_media import list_media


@dataclass(frozen=True, slots=True)
class HardFile:
    """One file; a generated one is written at the first use of its path."""

    name: str
    find: Callable[[], Path]


def list_files(media: Path | None, only: Sequence[str] = ()) -> list[HardFile]:
    """List the generated files, and the videos of a folder.

    Args:
        media: Folder of real media; None for none.
        only: Parts of names: a file that has none of them is left out. Without any, all stay.
    """
    files = [HardFile(name, partial(readable_path, name)) for name in (*HARD_FILES, *CODEC_CLIPS)]
    if media is not None:
        names = (name for name in list_media(media) if Path(name).suffix.lower() in VIDEO_SUFFIXES)
        files += [HardFile(name, partial(media.joinpath, name)) for name in names]
    return [file for file in files if not only or any(part in file.name for part in only)]
