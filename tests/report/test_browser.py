"""The page as a reader has it: in Chromium, on a phone and on a desk, in light and in dark.

One browser for all checks, Debian's own and not one that Playwright downloads. FRAMEFEED_CHROMIUM names another.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framefeed.report._page import write_report
from tests.report.made import HOSTILE, SHOWN, catalog

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")

CHROMIUM = os.environ.get("FRAMEFEED_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
SCREENS = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
MILLISECONDS = 20_000
"""Far more than anything here takes; a hang is a failure."""
CONTRAST = 4.5
"""The least that WCAG 2.2 asks for between text and what is behind it (success criterion 1.4.3)."""

BOXES = """() => [...document.querySelectorAll('figure:has(.mark)')].map((figure) => ({
  heading: figure.querySelector('h3').textContent,
  marks: [...figure.querySelectorAll('.mark')].map((mark) => {
    const box = mark.getBoundingClientRect(), fill = getComputedStyle(mark).fill;
    return [box.width, box.height, fill];
  }),
  texts: [...figure.querySelectorAll('svg text, .value, .number')].map((text) => text.getBoundingClientRect().height),
  frame: figure.getBoundingClientRect().toJSON(),
  drawings: [...figure.querySelectorAll('svg:not(.legend svg)')].map((drawing) => drawing.getBoundingClientRect()),
}))"""
TOUCHING = """() => {
  const found = [];
  for (const part of document.querySelectorAll('figure, .tile')) {
    const frame = part.getBoundingClientRect(), boxes = [];
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const range = document.createRange(), text = walker.currentNode;
      range.selectNodeContents(text);
      // The letters themselves are less high than their line.
      for (const box of range.getClientRects()) {
        const trim = box.height / 5;
        if (box.width) boxes.push([text.data, box.left, box.right, box.top + trim, box.bottom - trim]);
      }
    }
    boxes.forEach(([text, left, right, top, bottom], at) => {
      if (right > frame.right + 0.5 || left < frame.left - 0.5) found.push([text, 'leaves its frame']);
      for (const [other, ...edges] of boxes.slice(at + 1))
        if (left < edges[1] - 0.5 && edges[0] < right - 0.5 && top < edges[3] && edges[2] < bottom)
          found.push([text, other]);
    });
  }
  return found;
}"""
OVERFLOW = """() => [...document.querySelectorAll('body *')].filter((element) => {
  if (element.closest('.scroll, [hidden], svg')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > document.documentElement.clientWidth + 0.5 || box.left < -0.5);
}).map((element) => element.outerHTML.slice(0, 200))"""
FAINT = """(least) => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => part / 255).map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('script, [hidden]')) continue;
    const style = getComputedStyle(element), drawn = element.closest('svg') ? style.fill : style.color;
    const [one, other] = [light(drawn), light(behind(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < least) found.push([walker.currentNode.data, drawn, contrast]);
  }
  return found;
}"""


@dataclass
class Seen:
    """Scripts, requests and errors of a page while it was open."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self) -> Seen:
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.messages.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        return self


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium, or name one in FRAMEFEED_CHROMIUM")
    with pytest.MonkeyPatch.context() as patch:
        # Where the driver makes the browser's empty profile; the path of a socket in it must be shorter than 108 bytes.
        patch.setenv("TMPDIR", tempfile.mkdtemp())
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
            yield browser
            browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section in it, and with hostile names wherever there are names."""
    count = 60
    hostile = [f"clips/{name}" for name in HOSTILE]
    names = [*hostile, *(f"clips/{at:05d}.mp4" for at in range(len(hostile), count))]
    failed = ["CorruptMedia" if at % 7 == 1 else None for at in range(count)]
    made = catalog(
        count, source=names, labels=[name[-40:] for name in names],
        width=[(640, 1920, 360, 3840)[at % 4] for at in range(count)],
        height=[(360, 1080, 640, 2160)[at % 4] for at in range(count)],
        num_frames=[30 * (at + 1) for at in range(count)], num_key_frames=[1 + at % 5 for at in range(count)],
        duration_seconds=[10.0 + at for at in range(count)], bytes=[10 ** (3 + at % 7) for at in range(count)],
        error_type=failed, error=[f"{name}: {name}" if failed[at] else None for at, name in enumerate(names)],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(made, path, title=HOSTILE[0])
    return path


def opened(browser: Any, report: Path, screen: str, scheme: str) -> Seen:
    width, height = SCREENS[screen]
    is_phone = screen == "phone"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        offline=True,
        has_touch=is_phone,
        is_mobile=is_phone,
    )
    context.set_default_timeout(MILLISECONDS)
    seen = Seen(context.new_page()).watch()
    seen.page.goto(report.as_uri())
    return seen


@pytest.fixture(scope="module", params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=SCREENS)
def seen(request: pytest.FixtureRequest, scheme: str, browser: Any, report: Path) -> Iterator[Seen]:
    """The page on one screen in one scheme; whatever was done with it, it ran nothing and asked for nothing."""
    seen = opened(browser, report, request.param, scheme)
    yield seen
    assert seen.messages == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.title() == HOSTILE[0]
    seen.page.context.close()


def test_each_check_of_a_page_can_fail(browser: Any, report: Path) -> None:
    seen = opened(browser, report, "phone", "light")
    seen.page.evaluate("document.querySelector('h2').style.width = '500px'")
    seen.page.evaluate("document.querySelector('h3').style.color = 'rgb(200, 200, 200)'")
    seen.page.evaluate("document.querySelector('svg text').style.fill = 'rgb(200, 200, 200)'")
    assert len(seen.page.evaluate(OVERFLOW)) == 1
    assert len(seen.page.evaluate(FAINT, CONTRAST)) == 2
    seen.page.evaluate("document.querySelector('.bars .number').style.transform = 'translateX(60px)'")
    seen.page.evaluate("document.querySelector('.tile dd').style.transform = 'translateX(400px)'")
    assert {text for _, text in seen.page.evaluate(TOUCHING)} > {"leaves its frame"}
    seen.page.context.close()


def test_the_policy_stops_injected_scripts(browser: Any, report: Path) -> None:
    seen = opened(browser, report, "desk", "light")
    seen.page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = "document.title = 'owned'";
          document.body.append(script);
          document.body.insertAdjacentHTML('beforeend', '<img src="https://example.com/x" onerror="document.title=1">');
        }"""
    )
    seen.page.wait_for_function("document.images.length === 1 && document.images[0].complete")
    assert seen.page.title() == HOSTILE[0]
    assert sum("Content Security Policy" in message for message in seen.messages) >= 2
    seen.page.context.close()


def test_every_plot_is_drawn_and_the_page_is_no_wider_than_the_screen(seen: Seen, tmp_path: Path) -> None:
    plots = seen.page.evaluate(BOXES)
    assert len(plots) == 23
    page = seen.page.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor")
    for plot in plots:
        assert plot["marks"], plot["heading"]
        assert all(width > 0 and height > 0 for width, height, _ in plot["marks"]), plot["heading"]
        assert all(fill not in {page, "none", "rgba(0, 0, 0, 0)"} for _, _, fill in plot["marks"]), plot["heading"]
        assert min(plot["texts"]) >= 9, f"{plot['heading']}: too small to be read"
        assert min(drawing["width"] for drawing in plot["drawings"]) > 30, f"{plot['heading']}: bars have no room"
        assert min(drawing["left"] for drawing in plot["drawings"]) >= plot["frame"]["left"]
        assert max(drawing["right"] for drawing in plot["drawings"]) <= plot["frame"]["right"]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert seen.page.evaluate(OVERFLOW) == []
    shot = tmp_path / "page.png"
    seen.page.screenshot(path=shot)
    assert shot.stat().st_size > 20_000


def test_no_text_touches_another(seen: Seen) -> None:
    assert seen.page.evaluate(TOUCHING) == []


def test_all_text_has_enough_contrast(seen: Seen) -> None:
    assert seen.page.evaluate(FAINT, CONTRAST) == []


def test_the_colour_scheme_follows_the_system(seen: Seen, scheme: str) -> None:
    colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = [int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    assert (max(levels) < 60) == (scheme == "dark")
    assert (min(levels) > 200) == (scheme == "light")


def test_a_column_sorts_by_value_and_says_so(seen: Seen) -> None:
    table = seen.page.locator("table.sortable", has=seen.page.locator("caption", has_text="Files that cost most"))
    heads = table.locator("th").all_text_contents()
    column = heads.index("bytes")
    button = table.locator("th button").nth(column)
    orders = []
    for _ in range(3):
        button.click()
        values = table.locator("tbody tr").evaluate_all(f"rows => rows.map(row => row.cells[{column}].textContent)")
        orders.append(
            (table.locator("th").nth(column).get_attribute("aria-sort"), [in_bytes(value) for value in values])
        )
    (first, falling), (second, rising), (third, again) = orders
    assert (first, second, third) == ("descending", "ascending", "descending")
    assert falling == sorted(falling, reverse=True) == again
    assert rising == sorted(falling)
    assert len(set(falling)) > 5
    others = table.locator("th").evaluate_all("heads => heads.map(head => head.getAttribute('aria-sort'))")
    assert [order for at, order in enumerate(others) if at != column] == ["none"] * (len(heads) - 1)


def in_bytes(shown: str) -> float:
    number, unit = shown.split(" ")
    return float(number.replace(",", "")) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


def test_a_column_of_names_sorts_as_text_from_the_keyboard(seen: Seen) -> None:
    table = seen.page.locator("table.sortable", has=seen.page.locator("caption", has_text="Largest files"))
    table.locator("th button").first.focus()
    seen.page.keyboard.press("Enter")
    assert table.locator("th").first.get_attribute("aria-sort") == "ascending"
    names = table.locator("td.name").all_text_contents()
    ordered = seen.page.evaluate(
        "names => [...names].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}))", names
    )
    assert names == ordered


def test_S13_hostile_names_are_text(seen: Seen) -> None:
    names = set(seen.page.locator("td.name").all_text_contents())
    assert set(SHOWN) <= names
    long = next(name for name in names if name.startswith("deep/deep/"))
    assert len(long) < 100
    titles = seen.page.locator("td.name[title]").evaluate_all("cells => cells.map(cell => cell.title)")
    assert f"clips/{HOSTILE[-1]}" in titles
    assert seen.page.locator("script").count() == 1
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("h1").text_content() == HOSTILE[0]


def test_a_touched_mark_shows_its_numbers(seen: Seen) -> None:
    mark = seen.page.locator("figure.plot .mark").first
    mark.scroll_into_view_if_needed()
    seen.page.mouse.move(0, 0)
    tip = seen.page.locator("#tip")
    assert tip.is_hidden()
    mark.hover()
    assert tip.is_visible()
    assert tip.text_content() == mark.get_attribute("data-tip")
    box, width = tip.bounding_box(), seen.page.viewport_size["width"]
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width


def test_without_scripts_every_bar_has_its_numbers(browser: Any, report: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    bars = page.locator(".bars > li")
    assert bars.count() > 100
    for number in range(0, bars.count(), 10):
        numbers = bars.nth(number).locator(".number")
        assert numbers.count() == 2
        assert all(numbers.nth(each).is_visible() for each in range(2))
    assert page.locator("figure svg[role=img][aria-label]").count() == 1
    context.close()
