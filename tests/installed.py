"""The wheel, in a virtual environment that has no checkout: ``python -m tests.installed oldest`` or ``newest``.

It is built from a copy of the sources, installed with the dependencies of that set, used from an empty folder, and then
the tests that touch the libraries run against it. ``newest`` needs Python 3.13, and says so where there is none.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "src")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")


@dataclass(frozen=True)
class Installation:
    """Where the wheel is tried.

    Attributes:
        pins: File with the versions to install, relative to the checkout; None for the newest that there are.
        python: Version of the interpreter.
        extras: Of framefeed.
        tools: Packages that the tests need besides.
        tests: What runs there, without the slow tests: what depends on NumPy, PyArrow, Pillow, PyAV and xxhash.
    """

    pins: str | None
    python: str
    extras: str
    tools: tuple[str, ...]
    tests: tuple[str, ...]


GOLDENS = "tests/golden"
LIBRARY_TESTS = (
    "tests/test_parity.py",
    "tests/test_formats.py",
    "tests/cache/codecs",
    "tests/catalog/test_catalog.py",
    "tests/catalog/test_catalog_files.py",
    "tests/catalog/test_facts.py",
    "tests/catalog/test_frame_rows.py",
    "tests/catalog/test_frame_tables.py",
    "tests/scanning/test_list_values.py",
    "tests/scanning/test_scanning.py",
    "tests/scanning/test_tables.py",
    "tests/catalog/test_travelling.py",
    "tests/decode/test_convert.py",
    "tests/decode/test_pyav.py",
    "tests/decode/test_still.py",
    "tests/encode",
    "tests/pictures",
)
NEWEST_TESTS = (
    *[path for path in LIBRARY_TESTS if not path.startswith(("tests/decode/", "tests/encode"))],
    "tests/decode",
    "tests/encode",
    "tests/index",
    "tests/media",
    "tests/mp4",
    "tests/parallel",
)
SETS = {
    "oldest": Installation("constraints-oldest.txt", "3.11", "cache,url", TOOLS, LIBRARY_TESTS),
    # Without torch, which is large: tests that need it are skipped.
    "newest": Installation(
        None, "3.13", "cache,url,remote,stills", (*TOOLS, "moto[s3]", "flask", "flask-cors"), NEWEST_TESTS
    ),
}

# Run from an empty folder.
USE = """
import sys
from importlib.resources import files
from pathlib import Path

import framefeed as ff
from framefeed.testing import make_folder, read_stamp

package = Path(str(files("framefeed")))
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()

paths = make_folder("videos", classes=2, videos_per_class=1, seconds=2)
assert ff.probe(paths[0]).codec == "h264"
ff.scan("videos", out="catalog.parquet", label_from="parent")
catalog = ff.Catalog.open("catalog.parquet")
plan = ff.plan_clips(catalog, ff.Uniform(4), seed=1)
with ff.ClipLoader(plan, batch_size=2) as loader:
    batches = list(loader)
shown = [read_stamp(frame) for batch in batches for clip in batch.data for frame in clip]
planned = [number for position in range(len(plan)) for number in plan[position].indices.tolist()]
assert len(shown) == 8 and shown == planned, (shown, planned)
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy: what an earlier build left in the checkout would come into it."""
    copy = folder / "sources"
    for name in BUILT_FROM:
        if (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(CHECKOUT / name, copy)
    _run([sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", folder, copy], cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_files(wheel: Path) -> None:
    """Compare the files of a wheel with those of the package: none is left out, and none is added."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = CHECKOUT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name and ".egg-info/" not in name}
    if packed != expected:
        raise SystemExit(f"the wheel differs from src: {sorted(packed ^ expected)}")


def find_python(version: str) -> str | None:
    """Find an interpreter of this version that runs; a shim of pyenv may be there and refuse to start."""
    name = f"python{version}"
    for python in [name, *sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/{name}")))]:
        try:
            if subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                return python
        except OSError:
            continue
    return None


def install(wheel: Path, python: str, chosen: Installation, folder: Path) -> Path:
    """Make a virtual environment with the wheel and what it declares; return its folder of programs."""
    _run([python, "-m", "venv", folder])
    # Wheels alone: where no compiler is, a source that has to be built is no support for that version.
    pins = () if chosen.pins is None else ("--constraint", CHECKOUT / chosen.pins)
    options = ("-qq", "--no-compile", "--only-binary", ":all:", *pins)
    _run([folder / "bin" / "python", "-m", "pip", "install", *options, f"{wheel}[{chosen.extras}]", *chosen.tools])
    return folder / "bin"


def use(programs: Path, folder: Path) -> None:
    """Go through all steps once, from Python and from the command line, in an empty folder."""
    folder.mkdir()
    _run([programs / "python", "-I", "-W", "error", "-c", USE], cwd=folder)
    _run([programs / "framefeed", "doctor", "catalog.parquet"], cwd=folder, quiet=True)
    _run([programs / "framefeed", "report", "catalog.parquet", "-o", "report.html"], cwd=folder, quiet=True)


def run_tests(programs: Path, chosen: Installation) -> None:
    """Run quick tests of the checkout, and the goldens, against what is installed, in two processes."""
    options = ("-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    # The goldens, which are one test, come first: they take one of the processes for long.
    tests = ("-m", "not slow or golden", GOLDENS, *chosen.tests)
    _run([programs / "python", "-m", "pytest", *options, *tests], cwd=CHECKOUT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Try one set of dependencies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    name = parser.parse_args(arguments).set
    chosen = SETS[name]
    python = find_python(chosen.python)
    if python is None:
        print(f"SKIPPED: {name} dependencies: no python{chosen.python} with venv on this machine", flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="framefeed-installed-") as temporary:
        folder = Path(temporary)
        with _timed(f"{name}: build the wheel"):
            wheel = build_wheel(folder)
            check_files(wheel)
        with _timed(f"{name}: install it for Python {chosen.python}"):
            programs = install(wheel, python, chosen, folder / "venv")
        with _timed(f"{name}: use it"):
            use(programs, folder / "empty")
        with _timed(f"{name}: run tests"):
            run_tests(programs, chosen)


@contextmanager
def _timed(what: str) -> Iterator[None]:
    before = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - before:.0f} s", flush=True)


def _run(command: Sequence[str | Path], cwd: Path | None = None, *, quiet: bool = False, **variables: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_REQUIRE"))}
    environment |= variables
    stdout = subprocess.DEVNULL if quiet else None
    if subprocess.run(command, cwd=cwd, env=environment, stdout=stdout).returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))[:300]}")


if __name__ == "__main__":
    main()
