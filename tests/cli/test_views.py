"""The live view of a loop: its numbers, its forms on narrow and plain terminals, and what it leaves behind."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from framefeed.cli._views import BarView, LiveView, Sample, Work, draw_table, list_shares, make_bar, open_view
from framefeed.load import LoadStats
from framefeed.scanning import scan
from framefeed.testing import make_folder
from tests.cli.running import SECONDS, environment
from tests.programs import running

WORK = Work(batches=100, batch_size=8, frames_per_clip=16)
SENTENCE = "decode: all CPUs are busy: more CPU cores, smaller videos or more frequent key frames would help"
seconds = st.floats(0, 1e6, allow_subnormal=False).map(lambda value: round(value, 3))


def sample(stats: LoadStats, step: float = 2.0, wait: float = 3.0) -> Sample:
    return Sample(step + wait, stats, step, wait, 1.0)


STATS = LoadStats(
    batches=40, clips=320, failed_clips=2, workers=4, plan_seconds=0.2, decode_seconds=14, transform_seconds=1.1,
    busy_seconds=16, idle_seconds=4, running=3, ready=8, max_ahead=16, wait_seconds=3, outside_seconds=2,
)  # fmt: skip


def drawn(width: int, stats: LoadStats = STATS, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding, write_through=True), width=width)
    console.print(draw_table(WORK, sample(stats), sample(stats), SENTENCE, console))
    return raw.getvalue().decode(encoding).splitlines()


@given(
    workers=st.integers(0, 64), busy=seconds, idle=seconds, parts=st.tuples(seconds, seconds, seconds), loop=seconds,
    step=seconds,
)  # fmt: skip
def test_shares_add_up(
    workers: int, busy: float, idle: float, parts: tuple[float, float, float], loop: float, step: float
) -> None:
    stats = LoadStats(
        workers=workers, busy_seconds=busy, idle_seconds=idle if workers else 0.0,
        plan_seconds=parts[0], decode_seconds=parts[1], transform_seconds=parts[2],
    )  # fmt: skip
    window = Sample(max(busy, step + loop), stats, step, loop, 0.0)
    shares = {name.strip(): (share, waiting) for name, share, waiting in list_shares(window)}
    stages = sum(shares[name][0] for name in ("plan", "decode", "transform"))
    if workers and busy + idle:
        share, waiting = shares[f"{workers} worker{'s' if workers > 1 else ''}"]
        assert waiting is not None
        assert share == pytest.approx(busy / (busy + idle))
        assert share + waiting == pytest.approx(1.0)
        if sum(parts):
            assert stages == pytest.approx(share)
    share, waiting = shares["training step"]
    assert waiting is not None
    assert share + waiting == pytest.approx(1.0 if step + loop else 0.0)
    assert all(0 <= share <= 1.000001 for share, _ in shares.values())


def test_seconds_of_a_window_are_differences() -> None:
    later = LoadStats(batches=50, clips=400, workers=4, busy_seconds=20, idle_seconds=10, decode_seconds=18, ready=3)
    window = Sample(9.0, later, 3.0, 6.0, 4.0).subtract(sample(STATS))
    assert (window.seconds, window.step_seconds, window.wait_seconds, window.cpu_seconds) == (4.0, 1.0, 3.0, 3.0)
    stats = window.stats
    assert (stats.batches, stats.clips, stats.busy_seconds, stats.idle_seconds, stats.ready) == (10, 80, 4, 6, 3)
    assert (stats.wait_share, stats.clips_per_second) == (0.75, (80 + 2) / 4)


def test_what_is_shown() -> None:
    shown = drawn(90)
    assert shown[0].rstrip() == "batch 40 of 100 (40 %), 5 s, about 8 s left"
    cells = {line.split("  ")[0] or line.split()[0]: re.findall(r"[\d.]+ %", line) for line in shown[2:7]}
    assert cells == {
        "4 workers": ["80 %", "20 %"],
        "plan": ["1 %"],
        "decode": ["73 %"],
        "transform": ["6 %"],
        "training step": ["40 %", "60 %"],
    }
    text = "\n".join(line.rstrip() for line in shown[7:])
    assert "1 of 2 batches ready, 3 of 4 workers at work" in text
    assert "63.6 clips/s, 1,018 frames/s; 2 clips failed" in text
    assert "bottleneck     decode: all CPUs are busy: " in text


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(width: int, encoding: str) -> None:
    for stats in (STATS, LoadStats(workers=2), LoadStats(batches=3, wait_seconds=1)):
        lines = drawn(width, stats, encoding)
        assert all(len(line) <= width for line in lines)
        assert any("█" in line or "#" in line for line in lines) == (width >= 60)


def test_bars() -> None:
    assert make_bar(0.5, 8, "utf-8") == ("████", "░░░░")
    assert make_bar(0.0, 3, "utf-8") == ("", "░░░")
    assert make_bar(1.5, 3, "utf-8") == ("███", "")
    assert make_bar(3 / 16, 2, "UTF-8") == ("▍", "░")
    assert make_bar(0.5, 8, "ascii") == ("####", "....")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("is_terminal", "term", "has_rich", "kind"),
    [
        (True, "xterm", True, LiveView),
        (True, "dumb", True, BarView),
        (True, "xterm", False, BarView),
        (False, "xterm", True, BarView),
    ],
)
def test_which_view_is_shown(
    is_terminal: bool, term: str, has_rich: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal() if is_terminal else io.StringIO())
    monkeypatch.setenv("TERM", term)
    if not has_rich:
        monkeypatch.setattr("framefeed.cli._views.find_spec", lambda name: None)
    view = open_view(WORK, LoadStats, lambda stats, cpu_seconds: "")
    assert type(view) is kind
    with view:
        view.begin_wait()
        view.begin_step()


# --- on a terminal ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("views")
    make_folder(folder / "videos", videos_per_class=3, seconds=1)
    scan(folder / "videos", out=folder / "cat.parquet")
    return os.fspath(folder / "cat.parquet")


def show(
    words: list[str],
    *,
    columns: int = 100,
    piped: bool = False,
    until: Callable[[str], bool] | None = None,
    **extra: str,
) -> tuple[int, str, bytes]:
    """Run a feed on a pseudo-terminal; return its exit code, what the terminal got, and its piped output.

    Args:
        words: Words after ``framefeed feed``.
        columns: Width of the terminal.
        piped: Whether standard output is a pipe.
        until: Ctrl-C is sent when the terminal got this.
        extra: Variables of the environment.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    settings = environment({"TERM": "xterm-256color", **extra})
    with running(
        [sys.executable, "-W", "error", "-m", "framefeed", "feed", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if piped else theirs, stderr=theirs, env=settings,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown, end = b"", monotonic() + SECONDS
        try:
            while monotonic() < end and select.select([ours], [], [], SECONDS)[0]:
                shown += os.read(ours, 1 << 16)
                if until is not None and until(shown.decode(errors="replace")):
                    process.send_signal(signal.SIGINT)
                    until = None
        except OSError:
            pass  # Linux: the other end was closed
        os.close(ours)
        piped_out = b"" if process.stdout is None else process.stdout.read()
        return process.wait(SECONDS), shown.decode(), piped_out


@pytest.mark.slow
def test_a_terminal_shows_the_stages_and_keeps_the_result(catalog: str) -> None:
    words = [catalog, "--rates", "2:2", "--batch-size", "2", "--size", "32", "--epochs", "3", "--step-ms", "120"]
    code, shown, _ = show(words, columns=70)
    assert code == 0
    assert "2 workers" in shown or "worker " in shown
    assert "training step" in shown
    assert "\x1b[" in shown
    began = shown.index("\x1b[?25l")
    assert shown.index("\x1b[?25h") < re.search("batch [1-9]", shown).start(), (
        "a process that is killed leaves the cursor visible"
    )
    assert shown.index("\x1b[?25h") > began
    left = shown[shown.rindex("\x1b[?25h") :]
    assert left.count("bottleneck") == 1
    assert [f"epoch {number}: 6 clips in" in shown for number in range(3)] == [True] * 3


@pytest.mark.slow
def test_ctrl_c_restores_the_terminal(catalog: str) -> None:
    words = [catalog, "--rates", "2:2", "--size", "32", "--epochs", "1000", "--step-ms", "50"]
    code, shown, _ = show(words, until=lambda text: re.search("batch [1-9]", text) is not None, NO_COLOR="1")
    assert code == 130
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert shown.rstrip().endswith("framefeed: interrupted")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown), "NO_COLOR: no colours"


@pytest.mark.slow
def test_json_is_piped_while_the_terminal_shows_the_view(catalog: str) -> None:
    words = [catalog, "--rates", "2:2", "--batch-size", "2", "--size", "32"]
    code, shown, out = show(words, piped=True)
    assert code == 0
    assert "training step" in shown
    assert json.loads(out)["batches"] == 3
    code, shown, out = show(words, piped=True, TERM="dumb")
    assert code == 0
    assert "\x1b" not in shown
    assert json.loads(out)["batches"] == 3
