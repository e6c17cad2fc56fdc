"""Catalogs made of columns: no media is read, and every fact is as the test wants it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa

from framefeed.catalog import FACTS, Catalog, encode_labels
from tests.catalog.synthetic import catalog_of_table

HOSTILE = (
    "<script>document.title='owned'</script>.mp4",
    '"onmouseover="document.title=\'owned\'" x=".mp4',
    "</style></script><img src=x onerror=\"document.title='owned'\">.mp4",
    "holiday\u202egpj.mp4",
    "caf\0dce9.mp4",
    "line\nbreak\t\x1b[31m.mp4",
    "it's & <b>bold</b>.mp4",
    "שלום.mp4",
    "deep/" * 800 + "end.mp4",
)
"""Names as the ``source`` column holds them: each would break a page that trusts it."""
SHOWN = (
    "<script>document.title='owned'</script>.mp4",
    '"onmouseover="document.title=\'owned\'" x=".mp4',
    "</style></script><img src=x onerror=\"document.title='owned'\">.mp4",
    "holiday\\u202egpj.mp4",
    "caf\\xe9.mp4",
    "line\\nbreak\\t\\x1b[31m.mp4",
    "it's & <b>bold</b>.mp4",
    "שלום.mp4",
)
"""The same as a reader is to see them, but for the long one, which is shortened."""


def catalog(count: int, *, labels: Sequence[str | None] | None = None, **columns: Any) -> Catalog:
    """A catalog of depth "header"; a column is a list, or one value for all rows, and null where not given.

    By default the rows are videos of 640x360 that are distinct in their names alone.
    """
    given: dict[str, Any] = {"source": [f"{number:06d}.mp4" for number in range(count)], "kind": "video"}
    given |= {"container": "mov", "codec": "h264", "width": 640, "height": 360, "rotation": 0, "mirrored": False}
    given |= {"pixel_format": "yuv420p", "num_frames": 300, "duration_seconds": 10.0, "average_fps": 30.0}
    given |= {"is_variable_frame_rate": False, "num_key_frames": 2, "bytes": 1_000_000} | columns
    arrays = {name: _column(given.get(name), kind, count) for name, kind in FACTS.items() if name != "label"}
    classes = sorted({label for label in labels or () if label is not None})
    plain = pa.chunked_array([pa.array(labels if labels is not None else [None] * count, pa.string())])
    arrays["label"] = encode_labels(plain, classes)
    table = pa.table({name: arrays[name] for name in FACTS})
    return catalog_of_table(table, classes)


def _column(values: Any, kind: pa.DataType, count: int) -> pa.ChunkedArray:
    items = values if isinstance(values, (list, tuple)) else [values] * count
    return pa.chunked_array([pa.array(items, kind)])


def read_bars(text: str) -> dict[str, dict[str, int]]:
    """Counts of the bars of each plot, by the plot's heading and the bar's label."""
    plots: dict[str, dict[str, int]] = {}
    for figure in text.split("<figure")[1:]:
        heading = re.search("<h3>(.*?)<", figure)
        bars = re.findall(r"<li><bdi[^>]*>(.*?)</bdi><svg.*?</svg><span[^>]*>([\d,]+)</span>", figure)
        if heading is not None and bars:
            plots[heading[1]] = {label: int(count.replace(",", "")) for label, count in bars}
            assert len(plots[heading[1]]) == len(bars)
    return plots


class Page(HTMLParser):
    """What a page says: its elements, and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br", "img"}:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] not in {"script", "style"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)
