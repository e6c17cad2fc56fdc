import os
import subprocess
import sys

from framefeed.bench._processes import descendants, read_family_clocks

BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_time_of_children_counts_while_they_live_and_after() -> None:
    before = read_family_clocks()
    with subprocess.Popen([sys.executable, "-c", BUSY + "print(flush=True)\ninput()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        living = read_family_clocks() - before
        assert child.pid in descendants(os.getpid())
        child.communicate(b"\n")
    ended = read_family_clocks() - before
    assert child.pid not in descendants(os.getpid())
    assert 0.3 <= living.cpu <= ended.cpu + 0.02  # the system counts ended ones in whole ticks at worst


def test_time_of_grandchildren_counts() -> None:
    before = read_family_clocks()
    inner = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert (read_family_clocks() - before).cpu >= 0.3
        child.communicate(b"\n")
