"""Photos of the sizes that are measured: real ones, resized, or put together to one of 12 megapixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from framefeed.errors import MissingMedia

FOLDER = "image/dali_photos"
SIZES = {"500": (500, 375), "600": (600, 500), "1280": (1280, 960), "12mp": (4000, 3000)}
"""Key -> (width, height)."""
_QUALITY = 90
_TILES = 4
"""Photos side by side in one of 12 megapixels: enlarged ones would have too little detail."""


def find_photos(media: Sequence[Path]) -> list[Path]:
    """List the real photos of the first folder that has some."""
    for folder in media:
        found = sorted((folder / FOLDER).glob("*_1280.jpg"))
        if found:
            return found
    raise MissingMedia(f"no folder of MEDIA has photos in {FOLDER}: give ../shared/media")


def make_photos(photos: Sequence[Path], folder: Path, key: str) -> list[str]:
    """Write photos of one size as JPEGs of quality 90 with 4:2:0 chroma, once a folder."""
    folder = folder / f"photos-{key}"
    width, height = SIZES[key]
    count = 8 if key == "12mp" else len(photos)
    paths = [folder / f"{number:03}.jpg" for number in range(count)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        for number, path in enumerate(paths):
            if key == "12mp":
                picture = _join_photos(
                    [photos[(number * 5 + i) % len(photos)] for i in range(_TILES**2)], width, height
                )
            else:
                picture = _open(photos[number]).resize((width, height), Image.Resampling.LANCZOS)
            picture.save(path, quality=_QUALITY)
    return list(map(str, paths))


def _join_photos(photos: Sequence[Path], width: int, height: int) -> Image.Image:
    joined = Image.new("RGB", (width, height))
    columns, rows = width // _TILES, height // _TILES
    for number, photo in enumerate(photos):
        tile = _open(photo).resize((columns, rows), Image.Resampling.LANCZOS)
        joined.paste(tile, (number % _TILES * columns, number // _TILES * rows))
    return joined


def _open(photo: Path) -> Image.Image:
    with Image.open(photo) as image:
        return image.convert("RGB")
