from __future__ import annotations

import json
import os
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import framefeed.cli.doctor
from framefeed.bitstreams import CODECS
from framefeed.cli._imports import find_faults
from framefeed.cli._versions import Requirement, find_version, list_requirements
from tests.cli.running import CHECKOUT, Answer
from tests.lengths import IS_ALL


def test_versions_limits_and_codecs_are_printed(answer: Answer) -> None:
    out, err = answer("doctor")
    assert err == ""
    first_words = {line.split()[0] for line in out.splitlines() if line}
    assert {"framefeed", "python", "numpy", "av", "pillow", "ffmpeg", "libavcodec", "h264", "av1", "vp9"} <= first_words
    assert "thread budget: " in out
    assert "/dev/shm: " in out
    assert "backends by name: dali, decord, opencv, pyav, still, torchcodec, torchcodec-approximate" in out


def test_json(answer: Answer) -> None:
    facts = json.loads(answer("doctor", "--json").out)
    assert facts["threads"]["budget"] >= 1
    assert facts["threads"]["reasons"]
    assert facts["codecs"]["h264"]["decoders"] == ["h264"]
    assert facts["limits"]["open_files"] > 0
    assert isinstance(facts["warnings"], list)


def test_requirements_are_read_from_the_metadata() -> None:
    actual = {(one.name, one.extra): one for one in list_requirements()}
    if not actual:
        pytest.skip("framefeed is not installed here")
    assert actual["av", ""].floor
    assert ("torch", "torch") in actual


@pytest.mark.parametrize(
    ("installed", "floor", "is_too_old"),
    [("2.3.9", "2.4", True), ("2.13.0+cpu", "2.6", False), ("18.1.0", "18.1", False), ("9.0rc1", "9.0", False),
     ("10.0", "9.5", False), ("1.0", "", False), (None, "1.0", False)],
)  # fmt: skip
def test_version_floors(installed: str | None, floor: str, is_too_old: bool) -> None:
    assert Requirement("package", floor, "", installed).is_too_old is is_too_old


def test_warnings(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    rows = [("numpy", "2.4", "", "1.26"), ("av", "18.1", "", None), ("ray", "2", "x", None)]
    old = [Requirement(*row) for row in rows]
    monkeypatch.setattr(framefeed.cli.doctor, "list_requirements", lambda: old)
    monkeypatch.setattr(framefeed.cli.doctor, "MIN_OPEN_FILES", 1 << 62)
    monkeypatch.setattr(framefeed.cli.doctor, "MIN_SHARED_BYTES", 1 << 62)
    out = answer("doctor").out
    assert "warning: numpy 1.26 is older than 2.4" in out
    assert "warning: av is missing" in out
    assert "files can be open at once" in out
    assert "--shm-size" in out
    assert "pip install 'framefeed[x]'" in out
    assert "nothing is missing" not in out


@pytest.mark.parametrize(
    ("rows", "closing"),
    [
        ([("numpy", "2.4", "", "2.4")], "everything is installed"),
        ([("numpy", "2.4", "", "2.4"), ("ray", "2", "ray", None), ("torch", "2", "torch", "2.1")],
         "everything that framefeed requires is installed; optional extras with missing packages: ray"),
        ([("numpy", "2.4", "", "1.26")], "1 warning, see above"),
    ],
)  # fmt: skip
def test_the_last_sentence_agrees_with_the_list(
    rows: list[tuple[str, str, str, str | None]],
    closing: str,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
) -> None:
    monkeypatch.setattr(framefeed.cli.doctor, "list_requirements", lambda: [Requirement(*row) for row in rows])
    monkeypatch.setattr(framefeed.cli.doctor, "CODECS", {"h264": CODECS["h264"]})
    monkeypatch.setattr(framefeed.cli.doctor, "MIN_OPEN_FILES", 0)
    monkeypatch.setattr(framefeed.cli.doctor, "MIN_SHARED_BYTES", 0)
    assert answer("doctor").out.splitlines()[-1] == closing


def test_the_last_line_names_codecs_without_a_decoder(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    unknown = CODECS["h264"]._replace(name="none_such")
    monkeypatch.setattr(framefeed.cli.doctor, "CODECS", {"h264": CODECS["h264"], "none_such": unknown})
    assert answer("doctor").out.splitlines()[-1].endswith("; codecs that cannot be decoded here: none_such")


def test_tensorflow_is_there_under_either_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"tensorflow-cpu": "2.21.0"}

    def find(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr("framefeed.cli._versions.version", find)
    assert find_version("tensorflow") == "2.21.0"
    installed["tensorflow"] = "2.22.0"
    assert find_version("tensorflow") == "2.22.0"
    installed.clear()
    assert find_version("tensorflow") is None


def test_what_cannot_be_imported_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    faults = {
        "torchcodec/decoders.py": "raise RuntimeError('Could not load it') from OSError('libnvrtc.so.13: cannot open')",
        "decord.py": "import os; print('noise'); os._exit(9)",
        "pillow_jxl.py": "print('noise'); raise SystemExit(1)",
        "joblib.py": "import no_such_module",
        "spdl/io.py": "print('well')",
    }
    for name, code in faults.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(CHECKOUT / "src")]))
    names = ["torchcodec", "decord2", "pillow-jxl-plugin", "joblib", "spdl-io"]
    monkeypatch.setattr(framefeed.cli.doctor, "find_faults", find_faults)
    monkeypatch.setattr(
        framefeed.cli.doctor, "list_requirements", lambda: [Requirement(name, "", "bench", "1.0") for name in names]
    )
    out = answer("doctor").out
    for line in (
        "torchcodec is installed, but cannot be imported: OSError: libnvrtc.so.13: cannot open",
        "decord2 is installed, but cannot be imported: importing it ended the process with 9",
        "pillow-jxl-plugin is installed, but cannot be imported: SystemExit: 1",
        "joblib is installed, but cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    ):
        assert f"warning: {line}\n" in out
    assert "spdl-io is installed" not in out
    assert "joblib 1.0 (cannot be imported), spdl-io 1.0 (see the warnings)" in out
    assert out.splitlines()[-1].startswith("4 warnings, see above")


def test_extras_that_bring_torchcodec_bring_torch() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, packages in extras.items():
        if any(each.startswith("torchcodec") for each in packages):
            assert any(each.startswith("torch>") for each in packages), name


@pytest.mark.slow
def test_what_is_installed_here_can_be_imported() -> None:
    installed = {each.name for each in list_requirements() if each.installed and each.extra != "dev"}
    assert {"numpy", "av", "pillow"} <= installed
    # The frameworks take five seconds of CPU; other tests import them.
    assert find_faults(sorted(installed) if IS_ALL else ["av", "numpy", "pillow"]) == {}
