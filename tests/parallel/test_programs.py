"""Programs with worker processes need no main guard, and however they end, their workers end too."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lengths import either
from tests.parallel.living import all_gone, children_of, group_of, state_of, wait_until
from tests.patience import PATIENCE_SECONDS
from tests.programs import Program

WORKERS = 2

OWN_MODULE = """
def own_name(item):
    return f"{__name__} {item}"
"""

BEGINNING = """
import os, sys
from pathlib import Path
from framefeed.errors import UsageError
from framefeed.parallel import ProcessPool, ordered_map, ordered_outcomes
from tests.parallel import functions

folder = str(Path(__file__).parent / "workers")
"""

HANGING = """
os.mkdir(folder)
outcomes = ordered_outcomes(functions.hang_and_tell, [None, folder, folder], max_in_flight=3, {how})
next(outcomes)
while len(os.listdir(folder)) < 2:
    pass
"""
OWN = HANGING.format(how='workers=2, kind="processes"')
GIVEN = "pool = ProcessPool(2)" + HANGING.format(how="pool=pool")


def list_workers(program: Program) -> list[int]:
    """List those that hang, once they all do."""
    folder = program.folder / "workers"
    wait_until(lambda: folder.is_dir() and len(list(folder.iterdir())) == WORKERS)
    return [int(path.name) for path in folder.iterdir()]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with ExitStack() as left:
        yield Program(tmp_path, left, BEGINNING)


def test_a_script_needs_no_main_guard(program: Program) -> None:
    (program.folder / "own_module.py").write_text(OWN_MODULE)
    ended = program.run("""
import own_module
print("once")
print(*ordered_map(own_module.own_name, range(3), workers=2, kind="processes", max_in_flight=3), sep=", ")
""")
    assert ended == (0, "once\nown_module 0, own_module 1, own_module 2\n", "")


def test_L20_what_the_main_program_defines_is_refused(program: Program) -> None:
    ended = program.run("""
from functools import partial

def double(item):
    return 2 * item

class Doubling:
    def double(self, item):
        return 2 * item
    __call__ = double

for function in (double, partial(map, double), Doubling(), Doubling().double, Doubling):
    try:
        ordered_outcomes(function, [1], workers=1, kind="processes", max_in_flight=1)
    except UsageError as error:
        message = str(error)
        print("is defined in the main program)" in message and message.count("in a module") == 1)
(outcome,) = ordered_outcomes(functions.same, [Doubling()], workers=1, kind="processes", max_in_flight=1)
print("in a module that the worker can import" in str(outcome.error))
""")
    assert ended == (0, "True\n" * 6, "")


ENDINGS = {
    "at the end of the script": OWN,
    "with a pool of its own": GIVEN,
    "held by a cycle": OWN + "cycle = [outcomes]; cycle.append(cycle); del outcomes, cycle",
    "with idle workers": """
pool = ProcessPool(2)
os.mkdir(folder)
for worker in ordered_map(functions.process, range(50), pool=pool, max_in_flight=4):
    Path(folder, str(worker)).touch()
""",
}


@pytest.mark.parametrize("script", ENDINGS.values(), ids=ENDINGS.keys())
def test_L17_the_interpreter_exits_quietly_and_its_workers_with_it(program: Program, script: str) -> None:
    assert program.run(script) == (0, "", "")
    assert all_gone(list_workers(program))


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(either(short=2, long=50)))
def test_L17_the_interpreter_exits_quietly_while_processes_prefetch(program: Program, attempt: int) -> None:
    # Each attempt leaves after another number of results.
    assert program.run(f"""
from itertools import count, islice
outcomes = ordered_outcomes(functions.make_bytes, count(1000 * {attempt}), workers=2, kind="processes", max_in_flight=8)
taken = list(islice(outcomes, {attempt}))
""") == (0, "", "")


PATIENT_CLOSE = """
from framefeed.parallel import OrderedOutcomes
for closed in (OrderedOutcomes, ProcessPool):
    closed.close.__defaults__ = (1000.0,)

def say_so():
    Path(folder).with_name("there").touch()
"""
"""Has every close that is not hurried wait longer than the test does."""

INTERRUPTED = {
    "waiting": OWN + "say_so(); next(outcomes)",
    "at something else": OWN + "with outcomes: say_so(); os.read(os.pipe()[0], 1)",
    "waiting for a pool of its own": GIVEN + "with pool: say_so(); next(outcomes)",
}
"""Where Ctrl-C finds the main program; it says when it is there."""


@pytest.mark.parametrize("script", INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_L15_an_interrupt_ends_a_program_at_once_and_its_workers_in_silence(program: Program, script: str) -> None:
    started = program.start(PATIENT_CLOSE + script)
    workers = list_workers(program)
    wait_until((program.folder / "there").exists)
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    out, err = started.communicate(timeout=PATIENCE_SECONDS)  # less than a close would wait
    assert started.returncode == -signal.SIGINT
    assert out == ""
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "_worker.py" not in err
    assert all_gone(workers)


INTERRUPTING = """
import signal
from itertools import count, islice

calls = 0

def count_calls(frame, event, argument):
    global calls
    calls += 1
    if calls == {moment}:
        sys.setprofile(None)
        os.killpg(0, signal.SIGINT)  # as a terminal does

sys.setprofile(count_calls)
while True:
    with ordered_outcomes(functions.make_bytes, count(1000), workers=2, kind="processes", max_in_flight=8) as outcomes:
        list(islice(outcomes, 30))
"""
"""Interrupts itself after a number of calls and returns of its main thread."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(either(short=2, long=100)))
def test_L15_an_interrupt_at_any_time_ends_all_quietly(program: Program, seed: int) -> None:
    # Each loop has some 6000.
    started = program.start(INTERRUPTING.format(moment=random.Random(seed).randint(1, 10_000)))
    _, err = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: all_gone(group_of(started.pid)))


def test_L15_a_program_that_is_killed_takes_its_hanging_workers_along(program: Program) -> None:
    started = program.start(OWN + "next(outcomes)")
    workers = list_workers(program)
    started.kill()
    wait_until(lambda: all_gone(workers))


def test_L15_a_program_that_is_killed_takes_its_idle_workers_along(program: Program) -> None:
    script = """
pool = ProcessPool(2)
list(ordered_map(functions.same, range(50), pool=pool, max_in_flight=4))
print("idle", flush=True)
os.read(os.pipe()[0], 1)
"""
    started = program.start(script)
    assert started.stdout is not None
    assert started.stdout.readline() == "idle\n"
    workers = children_of(started.pid)
    assert workers
    started.kill()
    wait_until(lambda: all_gone(workers))


def test_L15_a_program_that_is_killed_takes_stopped_workers_along(program: Program) -> None:
    started = program.start(OWN + "next(outcomes)")
    workers = list_workers(program)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    started.kill()
    wait_until(lambda: all_gone(workers))


def are_at_rest(process: int) -> bool:
    """Whether all threads of a process wait."""
    states = [
        (path / "stat").read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{process}/task").iterdir()
    ]
    return set(states) == {"S"}


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_L23_no_time_passes_for_a_deadline_while_all_processes_are_stopped(program: Program, kind: str) -> None:
    os.mkfifo(program.folder / "release")
    (program.folder / "clock").write_text("0")
    started = program.start(f"""
from framefeed import _stopping
from framefeed.parallel import _child, _ordered

def read_clock():
    now = Path(__file__).with_name("clock").read_text()
    with Path(__file__).with_name("reads").open("a") as reads:
        reads.write(now + " ")
    return float(now)

for module in (_child, _ordered, _stopping):
    module.perf_counter = module.monotonic = read_clock
    module.LIVENESS_SECONDS = 0.05
folder = str(Path(__file__).parent)
print("begins", flush=True)
print(*ordered_outcomes(
    functions.wait_and_tell, [folder], workers=1, kind="{kind}", max_in_flight=1, deadline_seconds={PATIENCE_SECONDS}
))
""")
    wait_until((program.folder / "begun").exists)
    wait_until(lambda: all(are_at_rest(started.pid) for _ in range(5)))
    os.killpg(started.pid, signal.SIGSTOP)  # as Ctrl-Z does
    wait_until(lambda: all(state_of(process) == "T" for process in group_of(started.pid)))
    (program.folder / "clock").write_text("1000")  # longer than the deadline
    os.killpg(started.pid, signal.SIGCONT)
    # Every wait that lasted while it was stopped has ended, and another one.
    reads = program.folder / "reads"
    wait_until(lambda: started.poll() is not None or reads.read_text().count("1000") > 8)
    assert started.poll() is None
    (program.folder / "release").write_bytes(b"")
    assert started.communicate(timeout=PATIENCE_SECONDS) == ("begins\nOk(None)\n", "")


@pytest.mark.slow
def test_L09_128_descriptors_are_enough_for_many_workers_and_runs(program: Program) -> None:
    ended = program.run("""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
for _ in range(2):
    results = ordered_map(functions.tenfold, range(8), workers=2, kind="processes", max_in_flight=8)
    assert list(results) == list(range(0, 80, 10))
with ProcessPool(20) as pool:
    together = list(ordered_map(functions.same, range(400), pool=pool, max_in_flight=40))
print(together == list(range(400)))
""")
    assert ended == (0, "True\n", "")


def test_L09_a_lack_of_descriptors_is_said_and_says_nothing_about_the_item(program: Program) -> None:
    ended = program.run("""
import resource
taken = [os.dup(0) for _ in range(20)]
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
with ProcessPool(1) as pool:
    (outcome,) = ordered_outcomes(functions.same, [1], pool=pool, max_in_flight=1)
    print(type(outcome.error).__name__, outcome.error)
    for descriptor in taken:
        os.close(descriptor)
    print(*ordered_map(functions.same, [2], pool=pool, max_in_flight=1))
""")
    assert ended == (
        0,
        "ResourceExhausted a worker process: ran out of file descriptors of this process (stage: parallel); this says "
        "nothing about the file: raise the limit (ulimit -n), or use fewer workers, and run it again\n2\n",
        "",
    )


@pytest.mark.parametrize("setting", ["signal.SIG_IGN", "lambda *_: reap()"])
def test_L24_a_program_that_reaps_all_children_itself_gets_its_results(program: Program, setting: str) -> None:
    ended = program.run(f"""
import signal

def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, {setting})
items = ["a", "kill", "b", "exit", "c", "exit"]
with ordered_outcomes(functions.die, items, workers=2, kind="processes", max_in_flight=4) as outcomes:
    print(*(outcome.value if hasattr(outcome, "value") else type(outcome.error).__name__ for outcome in outcomes))
""")
    assert ended == (0, "a WorkerLost b WorkerLost c WorkerLost\n", "")


@pytest.mark.parametrize("leaving", ["sys.exit()", "del outcomes, pool; import gc; gc.collect()"])
def test_a_forked_process_leaves_the_workers_to_its_parent(program: Program, leaving: str) -> None:
    ended = program.run(f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # later versions of Python warn of forks in programs with threads
pool = ProcessPool(2)
outcomes = ordered_map(functions.tenfold, range(40), pool=pool, max_in_flight=8)
before = [next(outcomes)]
forked = os.fork()
if forked == 0:
    {leaving}
    sys.exit()
status = os.waitpid(forked, 0)[1]
print(status, before + list(outcomes) == [10 * item for item in range(40)])
""")
    assert ended == (0, "0 True\n", "")


def test_L25_a_daemonic_process_can_have_workers_of_its_own(program: Program) -> None:
    ended = program.run("""
from multiprocessing import get_context

def work():
    print(*ordered_map(functions.tenfold, range(3), workers=2, kind="processes", max_in_flight=2), flush=True)

nested = get_context("fork").Process(target=work, daemon=True)  # as a worker of a DataLoader is
nested.start()
nested.join()
""")
    assert ended == (0, "0 10 20\n", "")


def test_a_worker_without_the_output_of_its_parent_ends_well(program: Program) -> None:
    ended = program.run("""
os.close(1)
with ProcessPool(1) as pool:
    print(*ordered_map(functions.same, [5], pool=pool, max_in_flight=1), file=sys.stderr)
os.dup2(2, 1)
""")
    assert ended == (0, "", "5\n")
