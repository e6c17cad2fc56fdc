"""The page of ``framefeed bench all``: of full and of empty results, with hostile texts, and as a browser shows it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.report import SettingRow, make_advice_page, write_advice_page, write_report
from tests.report.made import HOSTILE, Page, catalog

CHROMIUM = os.environ.get("FRAMEFEED_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def interval(median: float, low: float, high: float) -> dict[str, float]:
    return {"median": median, "low": low, "high": high, "rounds": 5}


def run(sources: str, workers: int, rate: float, **stages: float) -> dict[str, Any]:
    return {"sources": sources, "kind": "threads", "workers": workers, "stages": stages, "failed_clips": 0,
            "clips_per_second": interval(rate, rate - 1, rate + 1), "cpu_seconds_per_clip": 1 / rate}  # fmt: skip


MACHINE = {"processor": "Some CPU", "cores": 2, "memory_gib": 31.3, "python": "3.11.9", "packages": {"av": "16.0.0"}}
SETTINGS = {"media": ["videos"], "rule": "ff.Rates([(1, 8)])", "size": [224, 160], "batch_size": 16,
            "step_seconds": 0.05, "transform": None, "space_bytes": 180_000_000_000}  # fmt: skip
FULL: dict[str, Any] = {
    "bench": "all", "machine": MACHINE, "versions": {"opencv": "4.12"},
    "settings": {**SETTINGS, "space_bytes": 2 * 10**10}, "seconds": 268.4,
    "media": {"files": 100_000, "scanned": 512, "failed": 3, "clips": 99_414, "bytes": 412_000_000_000, "left_out": 12,
              "errors": [["videos/a.mp4", "CorruptMedia", "videos/a.mp4: no frame can be decoded"]]},
    "decode": {"clip_cpu_seconds": interval(0.071, 0.066, 0.078), "bytes_per_clip": 5_200_000, "failed": ["b.mp4"],
               "decoded_frames_per_delivered": 9.1,
               "kinds": [{"kind": "h264 720p GOP 256", "files": 61_000, "sampled": 15, "seconds": 0.064}]},
    "storage": {"media_bytes_per_second": 510_000_000, "disk_bytes_per_second": None, "why": "no room for a file"},
    "cache": {"codec": "raw", "holds": "every frame", "bytes": 31_000_000_000, "make_seconds": 2100.0},
    "proxies": {"short_side": 256, "gain": interval(8.8, 7.1, 10.9), "bytes": 4_100_000_000, "make_seconds": 2100.0},
    "runs": [run("originals", 1, 14.0, plan=1, decode=97, waiting=2), run("cache", 2, 310.0, decode=1, copying=3)],
    "peers": [{"title": "Clips of 16 frames", "unit": "clips", "contenders": [
                  {"name": "framefeed", "per_cpu_second": 14.1, "per_second": 13.9, "num_wrong": 0},
                  {"name": "seeker", "per_cpu_second": 6.3, "per_second": 11.2, "num_wrong": 3}],
               "comparisons": [{"what": "framefeed against seeker", "unit": "x", "figures": {
                   "CPU": interval(2.24, 2.1, 2.4), "wall": {"median": 1.24}}}]}],
    "failed": {"peer spdl": "it crashed"}, "left_out": {"loader, processes": "no lock is held"},
    "notes": ["peer opencv: it printed 3 lines"], "interrupted": True,
}  # fmt: skip
MINIMAL = {"bench": "all", "machine": MACHINE, "settings": SETTINGS}
ADVICE = ["Advice: fill a cache.", "It takes 35 minutes.", "", "  import framefeed as ff", "  if True:", "      pass"]
WAYS = [
    SettingRow("originals, 1 thread", 14.0, 13.1, 14.9, False, True),
    SettingRow("cache, 2 threads", 310.0, 262.0, 341.0, True, True, "31 GB, 35 minutes to make"),
    SettingRow("proxies, 2 threads", 120.0, nan, nan, False, False),
    SettingRow("cache, every size", 500.0, nan, nan, False, False, "does not fit: 310 GB of 180 GB free", True),
]


def test_a_full_result_is_shown() -> None:
    text = Page(make_advice_page(FULL, ADVICE, WAYS)).text.replace("\N{NO-BREAK SPACE}", " ")
    for shown in (
        "Loading 100,000 files on Some CPU", "Fill a cache.", "import framefeed as ff\nif True:\n    pass",
        "310 (262 to 341)", "\N{CHECK MARK} advised", "estimated", "not possible here", "31 GB, 35 minutes to make",
        "14 clips/s", "planning 1 %", "decoding 97 %", "other 75 %", "71.4 ms of CPU a clip",
        "no frame can be decoded", "510 MB/s", "holds every frame, raw; does not fit", "8.8x", "7.1 to 10.9", "35 min",
        "71 ms of CPU (66 to 78)", "h264 720p GOP 256", "61,000", "framefeed against seeker: CPU 2.24x (2.1 to 2.4)",
        "wall 1.24x", "it crashed", "no lock is held", "no room for a file", "b.mp4", "it printed 3 lines",
        "the page has what was measured until then", "224 \N{MULTIPLICATION SIGN} 160", "a training step", "50 ms",
        "Made by framefeed bench all in 4 min 28 s.", "Some CPU, 2 cores, 31.3 GiB of memory, Python 3.11.9.",
        "av 16.0.0, opencv 4.12.",
    ):  # fmt: skip
        assert shown in text, shown
    assert ": \nnot measured" not in text
    assert "\N{EN DASH}" not in text


def test_ways_are_sorted_and_excluded_ones_come_last() -> None:
    text = make_advice_page(FULL, ADVICE, WAYS)
    names = ["cache, 2 threads", "proxies, 2 threads", "originals, 1 thread", "cache, every size"]
    places = [text.index(f'<span class="value"><bdi>{name}') for name in names]
    assert places == sorted(places)
    assert text.count('class="whisker"') == 2
    assert '<rect class="whisker" x="52.40%" width="15.80%"' in text


@pytest.mark.parametrize("missing", [{}, dict.fromkeys(("media", "decode", "storage", "cache", "proxies", "runs"))])
def test_a_result_without_measurements_says_so(missing: dict[str, None]) -> None:
    text = Page(make_advice_page(MINIMAL | missing, [], [])).text
    assert "None, because too little was measured." in text
    for row in ("media", "decode", "storage", "cache", "proxies", "loader"):
        assert f"{row}: \nnot measured" in text
    assert "\N{EN DASH}" not in text
    assert make_advice_page({}, [], [])


@pytest.mark.parametrize("left_out", sorted({key for part in FULL.values() if isinstance(part, dict) for key in part}))
def test_any_value_may_be_missing(left_out: str) -> None:
    parts = {name: {key: value for key, value in part.items() if key != left_out} if isinstance(part, dict) else part
             for name, part in FULL.items()}  # fmt: skip
    Page(make_advice_page(parts, ADVICE, WAYS))


def test_why_a_row_is_missing_is_said_once() -> None:
    text = Page(make_advice_page(MINIMAL | {"left_out": {"proxies": "files are small"}}, [], [])).text
    assert text.count("proxies: ") == 1
    assert "files are small" in text


@pytest.mark.parametrize("rate", [nan, inf, 0.0, -1.0])
def test_rates_that_cannot_be_drawn_have_no_bar(rate: float) -> None:
    text = make_advice_page(MINIMAL, [], [replace(WAYS[0], clips_per_second=rate, low=rate, high=rate)])
    assert "originals, 1 thread" in text
    assert 'class="mark" x="0.00%" width="0.60%"' not in text
    assert "nan%" not in text
    assert "inf%" not in text


def put_everywhere(value: Any, text: str) -> Any:
    """Replace all texts of a result, and the keys of objects whose keys are texts."""
    if isinstance(value, list):
        return [put_everywhere(each, text) for each in value]
    if not isinstance(value, dict):
        return text if isinstance(value, str) else value
    free = {"failed", "left_out", "packages", "figures", "versions", "stages"}
    inner = {key: put_everywhere(item, text) for key, item in value.items()}
    return {key: {text: [*item.values()][-1]} if key in free and isinstance(item, dict) else item
            for key, item in inner.items()}  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_S13_hostile_texts_open_no_element(hostile: str) -> None:
    made, harmless = (
        make_advice_page(put_everywhere(FULL, text), [text, text, "import x", text],
                         [replace(way, name=text, note=text) for way in WAYS])
        for text in (hostile, "x")
    )  # fmt: skip
    page, plain = Page(made), Page(harmless)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    allowed = {name for _, attributes in plain.tags for name in attributes} | {"title"}
    assert {name for _, attributes in page.tags for name in attributes} <= allowed
    assert "\u202e" not in made
    assert "\x1b" not in made
    assert len(made) < 100_000


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = Page(make_advice_page(FULL, ADVICE, WAYS))
    named = [value for _, attributes in page.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert all(value is not None and value.startswith(("#", "data:,")) for value in named)
    anchors = {attributes.get("id") for _, attributes in page.tags}
    assert {value[1:] for value in named if value and value.startswith("#")} <= anchors
    policies = [attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes]
    assert len(policies) == 1
    assert str(policies[0]).startswith("default-src 'none'")
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)


def test_only_an_earlier_page_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "advice.html"
    write_advice_page(path, MINIMAL, [], [])
    write_advice_page(path, FULL, ADVICE, WAYS)
    assert path.read_text(encoding="utf-8") == make_advice_page(FULL, ADVICE, WAYS)
    with pytest.raises(UsageError, match="is not a report"):
        write_report(catalog(1), path)
    write_report(catalog(1), tmp_path / "report.html")
    (tmp_path / "mine.html").write_text("<title>thesis</title>", encoding="utf-8")
    for name in ("report.html", "mine.html"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(UsageError, match="is not a page of advice"):
            write_advice_page(tmp_path / name, FULL, ADVICE, WAYS)
        assert (tmp_path / name).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["advice.html", "mine.html", "report.html"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium, or name one in FRAMEFEED_CHROMIUM")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", tempfile.mkdtemp())
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            yield browser
            browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 1280])
@pytest.mark.parametrize("hostile", [None, HOSTILE[-1]], ids=["plain", "long"])
def test_the_page_fits_without_scripts(
    browser: Any, width: int, scheme: str, hostile: str | None, tmp_path: Path
) -> None:
    checks = pytest.importorskip("tests.report.test_browser", reason="playwright is not installed")
    ways = [replace(way, name=hostile, note=hostile) for way in WAYS] if hostile else WAYS
    write_advice_page(tmp_path / "a.html", put_everywhere(FULL, hostile) if hostile else FULL, ADVICE, ways)
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    requests: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "a.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.evaluate(checks.OVERFLOW) == []
    assert page.evaluate(checks.FAINT, checks.CONTRAST) == []
    assert page.evaluate(checks.TOUCHING) == []
    assert len(requests) == 1
    context.close()


def test_one_click_selects_the_code(browser: Any, tmp_path: Path) -> None:
    write_advice_page(tmp_path / "a.html", FULL, ADVICE, WAYS)
    context = browser.new_context(java_script_enabled=True, offline=True)
    page = context.new_page()
    page.goto((tmp_path / "a.html").as_uri())
    page.locator("pre").click()
    assert page.evaluate("getSelection().toString()").strip() == "import framefeed as ff\nif True:\n    pass"
    context.close()
