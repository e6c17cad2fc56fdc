"""Make picture and table of docs/video-language-models.md: the second that a prompt says, against the true one.

    .venv-vlm/bin/python -m benchmarks.vlm_chart --measure [--media ../shared/media]    asks the readers again
    .venv/bin/python -m benchmarks.vlm_chart                                            draws, and fills the table

What is installed beside .venv-vlm, and what told and true are, is in `benchmarks.vlm_truth`. The true second of a
picture is the one nearest to the told second at which that picture is on the screen.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
from pathlib import Path
from statistics import mean

from benchmarks.epoch_picture import place_text
from benchmarks.reading import RESULTS

PAGE = RESULTS.parents[1] / "docs" / "video-language-models.md"
RESULTS_OF = {"uneven": "vlm-truth-2026-11-30.tsv", "plain": "vlm-truth-2026-11-30-plain.tsv"}
TITLES = {
    "hf-torchcodec": "transformers, TorchCodec",
    "hf-pyav": "transformers, PyAV",
    "hf-decord": "transformers, decord",
    "hf-opencv": "transformers, OpenCV",
    "qwen-torchcodec": "qwen-vl-utils, TorchCodec",
    "qwen-decord": "qwen-vl-utils, decord",
    "framefeed": "framefeed",
}
FILE = "napari/auto-fill-labels.webm"
SECONDS = 7.5
TABLE = RESULTS / "vlm-chart-2026-11-30.tsv"
PICTURE = RESULTS.parents[1] / "docs" / "images" / "vlm-seconds.svg"
READERS = {
    "hf-torchcodec": "TorchCodec",
    "hf-decord": "decord",
    "hf-opencv": "OpenCV",
    "framefeed": "framefeed",
}
# Readers differ in form too, for those who see no difference in colour.
FORMS = {
    "hf-torchcodec": '<circle class="a" cx="{x}" cy="{y}" r="5"/>',
    "hf-decord": '<path class="b" d="M{x} {y}m-5 -5h10v10h-10z"/>',
    "hf-opencv": '<path class="c" d="M{x} {y}m0 -6l6 10.5h-12z"/>',
    "framefeed": '<path class="own" d="M{x} {y}m0 -6l6 6l-6 6l-6 -6z"/>',
}
# The background is drawn too: a page that is dark shows the picture of its reader's browser, which may be light.
STYLE = """<style>
.ground { fill: #ffffff } .ink { fill: #1f2933 } .faint { fill: #57606a } .own { fill: #0b7a75 }
.bold { font-weight: 650 }
.a { fill: none; stroke: #b4480f; stroke-width: 2 } .b { fill: none; stroke: #7a3e9d; stroke-width: 2 }
.c { fill: none; stroke: #2463a8; stroke-width: 2 } .line { stroke: #d0d7de }
.true { stroke: #0b7a75; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9aa4af } .own { fill: #2bb3ab }
.a { stroke: #f0883e } .b { stroke: #c297e8 } .c { stroke: #6cb0f5 } .line { stroke: #30363d } .true { stroke: #2bb3ab }
}
</style>"""


def measure(media: str) -> None:
    """Ask each reader, and write the seconds of its pictures."""
    import numpy as np

    from benchmarks.vlm_truth import decode_in_order, list_offs, run_reader

    path = str(Path(media) / "video" / FILE)
    truth, spans, _ = decode_in_order(path)
    lines = ["reader\ttold\ttrue"]
    with tempfile.TemporaryDirectory() as folder:
        for reader in READERS:
            result = run_reader(reader, [path], folder)[path]
            with np.load(Path(folder) / result["kept"]) as kept:
                pictures, told = kept["pictures"], kept["told"].tolist()
            offs = list_offs(pictures, told, truth, spans)
            lines += [f"{reader}\t{second:.3f}\t{second - off:.3f}" for second, off in zip(told, offs, strict=False)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_points() -> dict[str, list[tuple[float, float]]]:
    """Return (true, told) of the pictures of each reader."""
    points: dict[str, list[tuple[float, float]]] = {reader: [] for reader in READERS}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        reader, told, true = line.split("\t")
        points[reader].append((float(true), float(told)))
    return points


def draw(points: dict[str, list[tuple[float, float]]]) -> str:
    """Draw a mark for each picture; those that are told rightly lie on the diagonal."""
    width, height, left, top, side = 720, 486, 72, 76, 350
    scale = side / SECONDS

    def place(true: float, told: float) -> dict[str, str]:
        return {"x": f"{left + scale * true:.1f}", "y": f"{top + side - scale * told:.1f}"}

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Second that the prompt says, against that of the picture: framefeed is on the diagonal">',
        STYLE,
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        place_text(24, 32, "Which second does the prompt say for a picture?", "ink bold", 18),
        place_text(24, 56, "A screen recording of 588 frames in 7.5 s; 2 frames a second are asked for", "faint"),
    ]
    for second in range(8):
        x, y = place(second, second).values()
        parts += [
            f'<path class="line" d="M{left} {y}h{side}M{x} {top}v{side}"/>',
            place_text(left - 10, float(y) + 4, str(second), "faint", 12, "end"),
            place_text(float(x), top + side + 18, str(second), "faint", 12, "middle"),
        ]
    x, y = place(SECONDS, SECONDS).values()
    parts += [
        f'<path class="true" d="M{left} {top + side}L{x} {y}"/>',
        place_text(left + side / 2, top + side + 42, "second when the picture is on the screen", "ink", 13, "middle"),
        f'<g transform="translate(30 {top + side / 2}) rotate(-90)">'
        f"{place_text(0, 0, 'second that the prompt says', 'ink', 13, 'middle')}</g>",
    ]
    for number, (reader, title) in enumerate(READERS.items()):
        parts += [FORMS[reader].format(**place(*point)) for point in points[reader]]
        wrong = [abs(told - true) for true, told in points[reader] if told != true]
        base = top + 24 + 62 * number
        said = f"{len(wrong)} of {len(points[reader])} pictures told wrong"
        parts += [
            FORMS[reader].format(x=left + side + 38, y=base - 5),
            place_text(left + side + 54, base, title, "ink bold", 14),
            place_text(left + side + 54, base + 19, said, "faint", 12),
            place_text(left + side + 54, base + 36, f"by up to {max(wrong):.2f} s" if wrong else "", "faint", 12),
        ]
    base = top + 24 + 62 * len(READERS)
    parts += [
        place_text(left + side + 30, base + 18 * line, text, "faint", 12)
        for line, text in enumerate(("On the line, told and true are equal.", "Below it, the picture comes from later",
                                     "in the video than the prompt says."))
    ]  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def tabulate() -> str:
    """Make the page's table: a row for each reader, over both selections of files."""
    cells = {reader: [title] for reader, title in TITLES.items()}
    for name in RESULTS_OF.values():
        with (RESULTS / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        for reader, line in cells.items():
            mine = [row for row in rows if row["reader"] == reader]
            read = [row for row in mine if not row["error"]]
            wrong, came = (sum(int(row[column]) for row in read) for column in ("wrong", "came"))
            line += [f"{len(read)} of {len(mine)}", f"{wrong} of {came}"]
            line += [f"{mean(float(row['mean']) for row in read):.3f} s"]
            line += [f"{max(abs(float(row['worst'])) for row in read):.3f} s"]
    head = [
        "reader",
        *(f"{what}{each}" for what in ("", "plain: ") for each in ("files", "told wrong", "mean", "worst")),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *cells.values())) + "\n"


def fill(text: str) -> str:
    """Return the text of the page with the table that the results give."""
    return re.sub(r"(?<=<!-- figures: vlm -->\n\n)(?s:.*?)(?=\n<!-- end -->)", lambda _: tabulate(), text)


def main() -> None:
    """Draw the picture and fill the table, after asking the readers with --measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="ask the readers again")
    parser.add_argument("--media", default="../shared/media", help="the folder of the file")
    options = parser.parse_args()
    if options.measure:
        measure(options.media)
    PICTURE.write_text(draw(read_points()), encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
