"""The section of examples: small pictures of some files of each label, inside the page."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import numpy as np

from framefeed._names import is_url
from framefeed.catalog import Catalog, CatalogEntry
from framefeed.decode import VideoDecoder
from framefeed.encode import encode_still
from framefeed.errors import FramefeedError
from framefeed.report._bars import MAX_LABEL
from framefeed.report._columns import MAX_NAME, format_count, shorten, show_full_name
from framefeed.report._markup import Node, Section, make_element, make_grid

MAX_LABELS = 20
PER_LABEL = 3
# Pixels of a thumbnail.
MAX_WIDTH, MAX_HEIGHT = 160, 120
# Bytes of one encoded thumbnail, so that all of them stay below a megabyte.
MAX_BYTES = 10_000
QUALITIES = (70, 40, 10)


def make_examples_section(catalog: Catalog) -> Section | None:
    """Show a frame of the first, the middle and the last files of each label; None if there is none to show.

    A file that cannot be decoded now, or that would be fetched from a network, has no thumbnail.
    """
    if not catalog.has_frame_indexes:
        return None
    figures = []
    for label, rows in _list_labels(catalog):
        pictures = [picture for row in rows if (picture := make_thumbnail(catalog[row])) is not None]
        if pictures:
            full = show_full_name(label)
            heading = make_element("h3", make_element("bdi", shorten(full, MAX_LABEL), title=full))
            figures.append(make_element("figure", heading, make_element("div", *pictures, class_="thumbnails")))
    if not figures:
        return None
    more = len(catalog.classes) - MAX_LABELS
    text = "A key frame near the middle of some files; the files are evenly spaced over the rows of a label."
    rest = f" Labels that are not shown: {format_count(more)}." if more > 0 else ""
    return Section("examples", "Examples", text + rest, make_grid(*figures))


def _list_labels(catalog: Catalog) -> Iterator[tuple[str, list[int]]]:
    """List the largest labels with the rows of their examples; one group of all files without labels."""
    usable = catalog.usable_rows
    if not catalog.classes:
        yield "all files", _choose_rows(usable.tolist())
        return
    codes = catalog.column_values("label")[usable]
    sizes = np.bincount(codes[codes >= 0], minlength=len(catalog.classes))
    for code in np.argsort(-sizes, kind="stable")[:MAX_LABELS].tolist():
        yield str(catalog.classes[code]), _choose_rows(usable[codes == code].tolist())


def _choose_rows(rows: list[int]) -> list[int]:
    count = min(PER_LABEL, len(rows))
    return [rows[(2 * number + 1) * len(rows) // (2 * count)] for number in range(count)]


def make_thumbnail(entry: CatalogEntry) -> Node | None:
    """Make the picture of one file; None if it cannot be made."""
    name = getattr(entry.source, "name", entry.source)
    index = entry.frame_index
    if index is None or not isinstance(name, str) or is_url(name):
        return None
    height, width = index.stream.displayed
    scale = min(MAX_WIDTH / width, MAX_HEIGHT / height, 1.0)
    size = max(1, round(height * scale)), max(1, round(width * scale))
    keys = index.key_frame_indices
    ordinal = int(keys[len(keys) // 2]) if len(keys) else 0
    try:
        with VideoDecoder(entry, dimension_order="NHWC", size=size) as video:
            picture = video[ordinal]
    except FramefeedError:
        return None
    for quality in QUALITIES:
        encoded = encode_still(picture, "WEBP", quality)
        if len(encoded) <= MAX_BYTES:
            shown = shorten(show_full_name(name), MAX_NAME)
            data, alt = f"data:image/webp;base64,{base64.b64encode(encoded).decode()}", f"Frame {ordinal} of {shown}"
            return make_element("img", src=data, alt=alt, title=shown, width=size[1], height=size[0])
    return None
