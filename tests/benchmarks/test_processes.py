import os
import subprocess
import sys

import pytest

from benchmarks.processes import family_megabytes, own_megabytes, read_clocks_of, run_program

HOLDING = "import subprocess, sys; held = b'x' * 30_000_000\n"
PARENT = f"{HOLDING}subprocess.run([sys.executable, '-c', {HOLDING + 'print(flush=True); input()'!r}])"


def test_memory_and_time_are_of_a_process_with_all_that_it_started() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 60 < family_megabytes(process.pid) < 600
        assert read_clocks_of(process.pid).cpu > 0
        process.communicate(b"\n")
    assert family_megabytes(process.pid) == 0


def test_peak_is_of_this_process() -> None:
    assert 10 < own_megabytes("VmRSS") <= own_megabytes("VmHWM") < 100_000


def test_a_program_gives_what_its_function_returns() -> None:
    assert run_program(os.path.basename, "/some/where") == "where"
    with pytest.raises(subprocess.CalledProcessError):
        run_program(os.path.getsize, "/dev/null/none")
