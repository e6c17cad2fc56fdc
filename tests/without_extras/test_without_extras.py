"""framefeed in an interpreter that has no optional package: it works, and names the extra where it needs one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.running import CHECKOUT, SECONDS, environment
from tests.without_extras.steps import STEPS

HIDDEN = Path(__file__).parent / "hidden"
# Distribution -> what it is imported as, where that differs; and what no extra names, but other code of ours knows.
MODULES = {
    "decord2": "decord",
    "opencv-python-headless": "cv2",
    "pillow-heif": "pillow_heif",
    "pillow-jxl-plugin": "pillow_jxl",
    "spdl-io": "spdl",
}
UNNAMED = {"aiohttp", "nvidia", "ray", "torchvision"}


def _extras() -> dict[str, set[str]]:
    """Extra -> its distributions, without those that framefeed always needs."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    always = {_name(line) for line in project["dependencies"]}
    return {
        extra: {_name(line) for line in lines} - always for extra, lines in project["optional-dependencies"].items()
    }


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return found[0].lower()


OPTIONAL = set().union(*(names for extra, names in _extras().items() if extra != "dev"))


def _environment() -> dict[str, str]:
    modules = {MODULES.get(name, name) for name in OPTIONAL} | UNNAMED
    path = os.pathsep.join([str(HIDDEN), str(CHECKOUT / "src"), str(CHECKOUT)])
    hidden = f"{','.join(sorted(modules))};{','.join(sorted(OPTIONAL))}"
    return {**environment(), "PYTHONPATH": path, "FRAMEFEED_HIDDEN": hidden}


def _run(*words: str, cwd: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_optional_packages_are_hidden(tmp_path: Path) -> None:
    script = (
        "import importlib.metadata, importlib.util, numpy\n"
        "names = ('torch', 'fsspec', 'decord', 'cv2')\n"
        "assert [importlib.util.find_spec(name) for name in names] == [None] * 4\n"
        "found = {each.metadata['Name'].lower() for each in importlib.metadata.distributions()}\n"
        "assert 'numpy' in found and not found & {'torch', 'fsspec', 'decord2'}, found\n"
        "try:\n    import fsspec\n"
        "except ModuleNotFoundError:\n    print('hidden')\n"
    )
    assert _run("-c", script, cwd=tmp_path) == "hidden\n"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Error of each step; one interpreter runs all."""
    found: dict[str, str] = json.loads(_run("-m", "tests.without_extras.steps", cwd=tmp_path_factory.mktemp("without")))
    return found


@pytest.mark.parametrize("step", STEPS)
def test_step(step: str, outcomes: dict[str, str]) -> None:
    assert not outcomes[step], outcomes[step]


def test_the_command_runs(tmp_path: Path) -> None:
    assert "framefeed" in _run("-m", "framefeed", "--version", cwd=tmp_path)


def test_every_extra_for_users_has_a_step_that_names_it() -> None:
    text = (Path(__file__).parent / "steps.py").read_text(encoding="utf-8")
    named = set(re.findall(r'expect_extra\("(\w+)"', text))
    # `framefeed bench` lists what is not installed, and `framefeed feed` shows a bar without the extra "live".
    assert named == {extra for extra, distributions in _extras().items() if distributions} - {"bench", "dev"}
