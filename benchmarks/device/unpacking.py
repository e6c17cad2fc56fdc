"""The pack on the machine that measures: what this Python can use of it, and the environment in which parts run."""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import re
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Where container runtimes put a driver's libraries, not always with an entry for the loader.
_DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
_LIBRARY = re.compile(r"(lib(?:av|sw)\w+)-[0-9a-f]+\.so\.(\d+)\.")


@dataclass
class Unpacked:
    """An unpacked pack.

    Attributes:
        folder: Holds ``site``, ``media`` and what the parts write.
        packages: Name of each package, and its version or why it is not used.
        modules: Names of the modules that come from the pack.
    """

    folder: Path
    packages: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, str]:
        """Give what became of each package."""
        return dict(self.packages)

    def environment(self, root: Path) -> dict[str, str]:
        """Give the variables with which a part finds packages, the project and FFmpeg's libraries."""
        before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        paths = [str(self.folder / "site"), str(root / "src"), str(root), *before]
        libraries = [str(self.folder / "site" / "av.libs"), os.environ.get("LD_LIBRARY_PATH", ""), *_DRIVER_FOLDERS]
        return {
            "PYTHONPATH": os.pathsep.join(paths),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
            "PACKED_MODULES": ",".join(self.modules),
        }


def unpack(pack: Path, folder: Path) -> Unpacked:
    """Unpack media, and the packages that this Python can use."""
    unpacked = Unpacked(folder)
    site, media = folder / "site", folder / "media"
    site.mkdir()
    with tarfile.open(pack / "media.tar") as tar:
        tar.extractall(media, filter="data")
    listed = _read_list(pack)
    for package in listed["packages"]:
        problem = _find_problem(package, pack, listed["python"]) or _extract(pack / package["file"], site)
        if problem:
            unpacked.packages[package["name"]] = problem
        else:
            unpacked.packages[package["name"]] = f"{package['version']} from the pack"
            unpacked.modules.append(package["module"])
    _link_libraries(site / "av.libs")
    return unpacked


def _read_list(pack: Path) -> dict[str, Any]:
    file = pack / "packages.json"
    if not file.exists():
        return {"python": "", "packages": []}
    listed: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return listed


def _find_problem(package: dict[str, Any], pack: Path, python: str) -> str:
    if package["problem"]:
        return str(package["problem"])
    if not package["is_own"] and importlib.util.find_spec(package["module"]) is not None:
        return "this machine's own is used"
    here = sys.version_info
    stable = re.match(r"cp3(\d+)-abi3", package["tag"])  # for that Python and all later ones
    if python != f"{here.major}.{here.minor}" and not (stable and here.minor >= int(stable[1])):
        return f"packed for Python {python}, and this is {here.major}.{here.minor}"
    if not (pack / package["file"]).exists():
        return f"{package['file']} is missing in the pack"
    return ""


def _extract(archive: Path, site: Path) -> str:
    try:
        with lzma.open(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(site, filter="data")
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        return f"{archive.name} cannot be read: {type(error).__name__}: {error}"
    return ""


def _link_libraries(folder: Path) -> None:
    """Give PyAV's FFmpeg libraries the names by which TorchCodec looks for them; they must lie in the same folder."""
    for path in sorted(folder.glob("lib*.so.*")):
        if found := _LIBRARY.match(path.name):
            link = folder / f"{found[1]}.so.{found[2]}"
            if not link.exists():
                link.symlink_to(path.name)
