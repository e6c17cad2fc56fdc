"""Show a running loop on a terminal: a live table of its stages with rich, or a bar where that cannot be shown."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from time import monotonic, process_time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from tqdm import tqdm

from framefeed._units import format_count, format_number, format_seconds, format_share
from framefeed.cli._io import make_printable, print_out
from framefeed.decode import DecodeCounts
from framefeed.load import LoadStats
from framefeed.parallel import Gauge

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Seconds that the shown shares are of: long enough to be steady, short enough to follow a change.
WINDOW_SECONDS = 5.0
REFRESHES_PER_SECOND = 4
# Columns of the terminal. With fewer than this there are no bars.
MIN_WIDTH_FOR_BARS = 60
BAR_WIDTH = 24
LABEL_WIDTH = 13
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Work:
    """What a view says of the run as a whole.

    Attributes:
        batches: Batches of all epochs.
        batch_size: Clips in a batch.
        frames_per_clip: Frames in a clip.
    """

    batches: int
    batch_size: int
    frames_per_clip: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The sums of a run at one time.

    Attributes:
        seconds: The clock.
        stats: Sums of the loader.
        step_seconds: Time of the loop in training steps.
        wait_seconds: Time of the loop in waiting for batches.
        cpu_seconds: CPU time of this process.
    """

    seconds: float
    stats: LoadStats
    step_seconds: float
    wait_seconds: float
    cpu_seconds: float

    def subtract(self, earlier: Sample) -> Sample:
        """Compute the sums since an earlier time."""
        seconds = self.seconds - earlier.seconds
        step, wait = self.step_seconds - earlier.step_seconds, self.wait_seconds - earlier.wait_seconds
        stats = _subtract_stats(self.stats, earlier.stats, wait, step)
        return Sample(seconds, stats, step, wait, self.cpu_seconds - earlier.cpu_seconds)


def _subtract_stats(later: LoadStats, earlier: LoadStats, wait: float, step: float) -> LoadStats:
    names = ("batches", "clips", "failed_clips", "plan_seconds", "decode_seconds", "transform_seconds",
             "start_seconds", "busy_seconds", "idle_seconds")  # fmt: skip
    sums = {name: getattr(later, name) - getattr(earlier, name) for name in names}
    counts = DecodeCounts(
        **{each.name: getattr(later.counts, each.name) - getattr(earlier.counts, each.name)
           for each in fields(DecodeCounts)}
    )  # fmt: skip
    return replace(later, **sums, counts=counts, wait_seconds=wait, outside_seconds=step)


Explain = Callable[[LoadStats, float], str]
"""Says what the bottleneck is and what to change, from statistics and CPU seconds of the same time."""


class View(Protocol):
    """Shows a loop, which tells it what happens."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was shown, except lines."""

    def begin_wait(self) -> None:
        """Note that the loop asks for a batch."""

    def begin_step(self) -> None:
        """Note that the loop has a batch."""

    def print_line(self, line: str) -> None:
        """Print a line on standard output, which stays."""


def open_view(work: Work, read_stats: Callable[[], LoadStats], explain: Explain) -> View:
    """Make the live view if standard error is a terminal that can show it, else a bar, which is hidden elsewhere."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveView(work, read_stats, explain, console)
    return BarView(work)


class BarView:
    """A bar of the delivered batches, on standard error if that is a terminal."""

    def __init__(self, work: Work) -> None:
        self._bar = tqdm(
            total=work.batches, unit="batch", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def begin_wait(self) -> None:
        """Do nothing."""

    def begin_step(self) -> None:
        """Note that the loop has a batch."""
        self._bar.update()

    def print_line(self, line: str) -> None:
        """Print a line on standard output, which stays."""
        self._bar.clear()
        print_out(line)


class LiveView:
    """A table of the stages of a loop, drawn again several times a second by a thread of rich.

    Args:
        work: The run as a whole.
        read_stats: Reads the statistics of the loader.
        explain: Says what the bottleneck is.
        console: Where it is shown.
    """

    def __init__(self, work: Work, read_stats: Callable[[], LoadStats], explain: Explain, console: Console) -> None:
        from rich.live import Live

        self._work, self._read_stats, self._explain, self._console = work, read_stats, explain, console
        # The loop is a worker that works in its steps.
        self._loop = Gauge(1)
        self._samples: deque[Sample] = deque()
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=True,  # a warning of a library is printed above the table
        )

    def __enter__(self) -> Self:
        self._samples.append(self._take_sample())
        self._live.start(refresh=True)
        # Rich hides it until the end, which a process that is killed does not reach.
        self._console.show_cursor()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin_wait(self) -> None:
        """Note that the loop asks for a batch."""
        self._loop.record(0)

    def begin_step(self) -> None:
        """Note that the loop has a batch."""
        self._loop.record(1)

    def print_line(self, line: str) -> None:
        """Print a line on standard output, which stays."""
        if sys.stdout.isatty():
            self._console.print(make_printable(line), markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            print_out(line)

    def _take_sample(self) -> Sample:
        times = self._loop.read()
        return Sample(monotonic(), self._read_stats(), times.busy_seconds, times.idle_seconds, process_time())

    def _draw(self) -> Table:
        now = self._take_sample()
        self._samples.append(now)
        while len(self._samples) > 2 and self._is_enough(self._samples[1], now):
            self._samples.popleft()
        window = now.subtract(self._samples[0])
        sentence = self._explain(window.stats, window.cpu_seconds)
        return draw_table(self._work, now, window, sentence, self._console)

    def _is_enough(self, first: Sample, now: Sample) -> bool:
        return now.seconds - first.seconds >= WINDOW_SECONDS and now.stats.batches > first.stats.batches


def draw_table(work: Work, total: Sample, window: Sample, sentence: str, console: Console) -> Table:
    """Draw the stages of a loop.

    Args:
        work: The run as a whole.
        total: Sums since the beginning.
        window: Sums of the last seconds, which the shares are of.
        sentence: The bottleneck, and what to change.
        console: Where it is shown.
    """
    from rich.table import Table
    from rich.text import Text

    stats = window.stats
    has_bars = console.width >= MIN_WIDTH_FOR_BARS
    stages = Table.grid(padding=(0, 2))
    stages.add_column(width=LABEL_WIDTH, no_wrap=True, overflow="crop")
    if has_bars:
        stages.add_column(width=BAR_WIDTH, no_wrap=True, overflow="crop")
    stages.add_column(justify="right", no_wrap=True, overflow="crop")
    stages.add_column(justify="right", no_wrap=True, overflow="crop")
    heading = (f"last {window.seconds:.0f} s", *([""] if has_bars else []), "busy", "waiting")
    stages.add_row(*(Text(cell, style="dim") for cell in heading))
    for name, busy, waiting in list_shares(window):
        style = "yellow" if name.strip() == stats.bottleneck else ""
        full, rest = make_bar(busy, BAR_WIDTH, console.encoding)
        bar = Text.assemble((full, style or "cyan"), (rest if waiting is not None else "", "dim"))
        shares = format_share(busy), "" if waiting is None else format_share(waiting)
        stages.add_row(Text(name, style=style), *([bar] if has_bars else []), *shares)
    texts = {
        "queue": _describe_queue(work, stats),
        "speed": _describe_speed(work, stats, total.stats),
        "bottleneck": sentence,
    }
    lines = Table.grid(padding=(0, 2))
    if has_bars:
        lines.add_column(width=LABEL_WIDTH, no_wrap=True)
    lines.add_column(overflow="fold")
    for name, text in texts.items():
        lines.add_row(*([name, Text(text)] if has_bars else [Text(f"{name}: {text}")]))
    view = Table.grid()
    view.add_column(overflow="fold")
    view.add_row(Text(_describe_progress(work, total), style="bold"))
    view.add_row(stages)
    view.add_row(lines)
    return view


def list_shares(window: Sample) -> list[tuple[str, float, float | None]]:
    """List name, busy share and waiting share of the workers, their stages and the loop.

    A stage waits when its worker waits, so that it has no share of its own. The shares of the stages sum up to that of
    the workers: batches are counted when they are delivered, and workers work on later ones already, so that the
    seconds of a short time say how the workers' time is divided, not how long it was.
    """
    stats = window.stats
    worked = sum(stats.stages.values())
    # Without workers, the loop does their work while it waits.
    capacity = stats.busy_seconds + stats.idle_seconds if stats.workers else window.seconds
    busy = stats.busy_seconds / capacity if capacity else 0.0
    shares: list[tuple[str, float, float | None]] = []
    if stats.workers:
        shares.append((format_count(stats.workers, "worker"), busy, stats.idle_share))
    shares += [
        (f"  {name}", busy * seconds / worked if worked else 0.0, None) for name, seconds in stats.stages.items()
    ]
    loop = window.step_seconds + window.wait_seconds
    step = window.step_seconds / loop if loop else 0.0
    return [*shares, ("training step", step, 1 - step if loop else 0.0)]


def make_bar(share: float, width: int, encoding: str) -> tuple[str, str]:
    """Draw a share from 0 to 1 as a bar: the full part, and the rest."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    if not encoding.lower().startswith("utf"):
        full = "#" * round(eighths / 8)
        return full, "." * (width - len(full))
    full = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return full, "░" * (width - len(full))


def _describe_progress(work: Work, total: Sample) -> str:
    done, passed = total.stats.batches, total.step_seconds + total.wait_seconds
    text = f"batch {done:,} of {work.batches:,} ({format_share(done, work.batches)}), {format_seconds(round(passed))}"
    return f"{text}, about {format_seconds(round(passed / done * (work.batches - done)))} left" if done else text


def _describe_queue(work: Work, stats: LoadStats) -> str:
    if not stats.workers:
        return "none, because the loop decodes itself (--workers 0)"
    ready = format_number(round(stats.ready / work.batch_size, 1))
    ahead = round(stats.max_ahead / work.batch_size)
    return (
        f"{ready} of {format_count(ahead, 'batch', 'batches')} ready, "
        f"{stats.running} of {format_count(stats.workers, 'worker')} at work"
    )


def _describe_speed(work: Work, stats: LoadStats, total: LoadStats) -> str:
    rate = stats.clips_per_second
    text = f"{format_number(rate)} clips/s, {format_number(rate * work.frames_per_clip)} frames/s"
    if stats.cache is not None:
        text += f"; {format_share(stats.cached_share)} of the frames from the cache"
    return f"{text}; {format_count(total.failed_clips, 'clip')} failed" if total.failed_clips else text
