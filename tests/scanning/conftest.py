"""Shared by the tests of scans: media to pack and unpack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packed import Members, make_media, unpack


@pytest.fixture(scope="package")
def media(tmp_path_factory: pytest.TempPathFactory) -> Members:
    return make_media(tmp_path_factory.mktemp("media"))


@pytest.fixture
def folder(media: Members, tmp_path: Path) -> Path:
    """These media, unpacked."""
    return unpack(media, tmp_path / "unpacked")
