"""Names of other libraries are imported by those who ask for them, and import what they replace never."""

from __future__ import annotations

import subprocess
import sys

import pytest

import framefeed.compat
import framefeed.compat.torchvision
import framefeed.compat.torchvision.samplers
from tests.house import HEAVY, modules_after

DOORS = (framefeed.compat, framefeed.compat.torchvision, framefeed.compat.torchvision.samplers)


def test_torchvision_s_names_import_torch_alone() -> None:
    loaded = modules_after("import framefeed.compat.torchvision.samplers")
    assert {name.split(".")[0] for name in loaded} & HEAVY == {"torch"}


@pytest.mark.parametrize("door", DOORS)
def test_names_are_there(door: object) -> None:
    assert all(hasattr(door, name) for name in door.__all__)  # type: ignore[attr-defined]


def test_framefeed_imports_none_of_them_and_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import framefeed\n"
        "assert not [name for name in sys.modules if name.startswith('framefeed.compat')]\n"
        "from framefeed.errors import MissingDependency\n"
        "try:\n    import framefeed.compat.torchvision\n"
        "except MissingDependency as error:\n    assert 'framefeed[torch]' in str(error)\n"
        "else:\n    raise SystemExit('imported')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)
