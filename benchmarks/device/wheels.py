"""Python packages for a machine without network: downloaded by pip, reduced to what is loaded, compressed again."""

from __future__ import annotations

import fnmatch
import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import asdict, dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

_GLIBC = range(17, 40)
"""Minor versions of glibc 2 that a wheel may ask for: pip matches each exactly."""
# FFmpeg's major version, after which TorchCodec names its libraries, by that of libavcodec.
_FFMPEG_BY_LIBAVCODEC = {60: 6, 61: 7, 62: 8, 63: 9}
# One pair for each version of FFmpeg; the pair for PyAV's is kept.
_TORCHCODEC_LIBRARIES = ("*/libtorchcodec_core?.so", "*/libtorchcodec_custom_ops?.so")
_PILLOW_EXTRAS = ("*/_imagingft.*", "*/_imagingtk.*", "*/_avif.*", "*/libavif-*", "*/libharfbuzz*", "*/libfreetype*")
_NEVER_LOADED = ("*.pyi", "*.pxd", "*.h", "*.cpp", "*.cu", "*.a", "*/tests/*", "*.dist-info/licenses/*")
# Instructions are recoded before compression (x86), as xz does with executables.
_FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6}]


@dataclass(frozen=True)
class Package:
    """A package that travels.

    Attributes:
        name: For pip.
        module: Name by which it is imported.
        requirement: Versions for pip.
        leave_out: Patterns of files that are never loaded.
        is_own: Whether the packed one is used although the machine has one: only this version is measured.
    """

    name: str
    module: str
    requirement: str
    leave_out: tuple[str, ...] = ()
    is_own: bool = False


@dataclass(frozen=True)
class Packed:
    """One archive of the pack; ``problem`` says why there is none, ``tag`` for which Python it is ("cp311-abi3")."""

    name: str
    module: str
    is_own: bool
    version: str = ""
    file: str = ""
    problem: str = ""
    tag: str = ""


def choose_packages() -> tuple[Package, ...]:
    """List the packages: those that ``framefeed.build_index`` loads in the versions of this environment, and peers.

    pyarrow and tqdm are needed by parts of framefeed that the trial does not use.
    """
    same = {name: f"=={installed_version(name)}" for name in ("av", "numpy", "pillow", "simplejpeg", "xxhash")}
    return (
        Package("av", "av", same["av"], is_own=True),
        Package(
            "torchcodec",
            "torchcodec",
            "==0.17.*",
            ("*/libtorchcodec_heic.so", "*/giflib/*", "*.cmake", *_TORCHCODEC_LIBRARIES),
            is_own=True,
        ),
        Package(
            "PyNvVideoCodec",
            "PyNvVideoCodec",
            "==2.2.*",
            ("*.data/*", "samples/*", "benchmarks/*", "*_121.*", "*/libav*.so", "*/libav*.so.*.*"),
            is_own=True,
        ),
        Package("numpy", "numpy", same["numpy"], ("*/f2py/*",)),
        Package("pillow", "PIL", same["pillow"], _PILLOW_EXTRAS),
        Package("simplejpeg", "simplejpeg", same["simplejpeg"]),
        Package("xxhash", "xxhash", same["xxhash"]),
    )  # fmt: skip


def pack_packages(folder: Path, downloads: Path, python: str) -> list[Packed]:
    """Write one archive per package; a package that pip does not find is packed as its problem."""
    folder.mkdir(parents=True, exist_ok=True)
    packed: list[Packed] = []
    kept: tuple[str, ...] = ()
    for package in choose_packages():
        wheel = _download(package, downloads, python)
        if isinstance(wheel, str):
            packed.append(Packed(package.name, package.module, package.is_own, problem=wheel))
            continue
        if package.module == "av":
            kept = _name_torchcodec_libraries(wheel)
        file = folder / f"{package.module}.tar.xz"
        _compress(wheel, file, package.leave_out, kept if package.module == "torchcodec" else ())
        _, version, python_tag, abi, _ = wheel.name.split("-")
        tag = f"{python_tag}-{abi}"
        packed.append(Packed(package.name, package.module, package.is_own, version, file.name, tag=tag))
    return packed


def write_list(folder: Path, packed: list[Packed], python: str) -> None:
    """Write what the pack holds, for the trial."""
    listed = {"python": python, "packages": [asdict(package) for package in packed]}
    (folder / "packages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def _download(package: Package, downloads: Path, python: str) -> Path | str:
    """Download the wheel for manylinux on x86-64; return what pip says if it fails."""
    target = downloads / f"{package.module}-{python}"
    tag = f"cp{python.replace('.', '')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp", "--abi", tag, "--abi", "abi3", "--abi", "none"]
    for minor in reversed(_GLIBC):
        command += ["--platform", f"manylinux_2_{minor}_x86_64"]
    command += ["--platform", "manylinux2014_x86_64", "--platform", "any"]
    command += ["--dest", str(target), package.name + package.requirement]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(target.glob("*.whl"))
    if finished.returncode or not wheels:
        lines = finished.stderr.strip().splitlines() or ["pip wrote no wheel"]
        return f"pip found no wheel of {package.name}{package.requirement} for Python {python}: {lines[-1]}"
    return wheels[-1]


def _name_torchcodec_libraries(wheel: Path) -> tuple[str, ...]:
    """Name TorchCodec's two libraries for the FFmpeg that PyAV's wheel carries."""
    with zipfile.ZipFile(wheel) as archive:
        majors = [
            int(found[1]) for name in archive.namelist() if (found := re.search(r"/libavcodec-.*\.so\.(\d+)", name))
        ]
    major = _FFMPEG_BY_LIBAVCODEC.get(majors[0] if majors else 0, 8)
    return (f"*/libtorchcodec_core{major}.so", f"*/libtorchcodec_custom_ops{major}.so")


def _compress(wheel: Path, file: Path, leave_out: tuple[str, ...], keep: tuple[str, ...]) -> None:
    with (
        zipfile.ZipFile(wheel) as archive,
        lzma.open(file, "wb", format=lzma.FORMAT_XZ, filters=_FILTERS) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for member in archive.infolist():
            name = member.filename
            if member.is_dir() or (_matches(name, (*leave_out, *_NEVER_LOADED)) and not _matches(name, keep)):
                continue
            header = tarfile.TarInfo(name)
            header.size, header.mode = member.file_size, 0o755
            tar.addfile(header, io.BytesIO(archive.read(member)))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
