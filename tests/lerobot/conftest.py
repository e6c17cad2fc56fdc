"""Data sets of LeRobot for the tests of this room."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from framefeed.testing import make_lerobot

TOP = "observation.images.top"


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def in_cache_folder(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep catalogs and columns out of the user's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("robots")
    return {
        version: make_lerobot(folder / version, version=version, cameras=[TOP, "wrist"], size=(32, 48))
        for version in ("3.0", "2.1")
    }


@pytest.fixture
def copy(original: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Copy the data set of a version, which a test may damage."""

    def copy(version: str = "3.0") -> Path:
        return Path(shutil.copytree(original[version], tmp_path / version))

    return copy
