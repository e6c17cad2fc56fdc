"""The table of docs/scale.md is what the script computes, from results that are there."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from benchmarks.reading import RESULTS
from benchmarks.scale import CLIP_BYTES, HEADER, PAGE, RAY, Costs, Node, fill, fill_costs, make_rows

COSTS = Costs(decoded=5, through_ray=4, cached=4000, bytes_read=1e6)


def test_the_page_has_what_the_script_computes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- scale: costs -->") == text.count("<!-- end -->") == 1
    assert fill_costs() in text
    assert fill(text) == text, "run: python -m benchmarks.scale --write"


def test_a_figure_that_differs_is_seen() -> None:
    text = PAGE.read_text(encoding="utf-8")
    changed, count = re.subn(r"\d+ days", "9999 days", text)
    assert count
    assert fill(changed) == text


def test_gpus_wait_for_what_cores_do_not_decode() -> None:
    rows = list(make_rows(COSTS, Node(cores=32, gpus=8, gpu=50)))
    assert len(rows) == 12
    assert all(len(row) == len(HEADER) for row in rows)
    # 160 of 400 clips a second; a CPU node gives 128; 240 of 2.4 MB are sent.
    beside = ("60% of the time", "1.7 h", "160 MB/s")
    without = ("42 min", "2", "400 MB/s", "578 MB/s", "0.1", "2.4 TB", "963 MB/s")
    assert rows[0] == ("1 million", "1", *beside, *without)
    assert rows[3][:7] == ("1 million", "100", "60% of the time", "1.0 min", "16 GB/s", "25 s", "188")
    assert CLIP_BYTES == 2_408_448


def test_cores_that_suffice_leave_no_gpu_waiting() -> None:
    for row in make_rows(replace(COSTS, decoded=100), Node()):
        assert (row[2], row[6], row[8]) == ("0% of the time", "0", "0 MB/s")
        assert row[3] == row[5]


def test_results_name_no_machine_and_no_folder() -> None:
    text = (RESULTS / RAY).read_text(encoding="utf-8")
    result = json.loads(text)
    assert {"versions", "machine", "load", "rows", "figures", "rounds"} == set(result)
    assert not re.search(r'"/|/work|/home|/tmp', text)
    assert set(result["figures"]) == set(result["rows"]) == set(result["rounds"])
