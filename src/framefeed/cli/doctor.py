"""``framefeed doctor``: show what is installed, the limits of this machine, and the contents of a catalog."""

from __future__ import annotations

import argparse
import os
import platform
import resource
from collections.abc import Iterator
from typing import Any

from framefeed._units import counted
from framefeed.catalog import Catalog
from framefeed.cli._io import Exit, printable, say, say_json, table
from framefeed.cli._versions import Requirement, framefeed_version, installed_version, requirements
from framefeed.cli.scan import sentences, summary
from framefeed.encode import codec_support, ffmpeg_versions
from framefeed.parallel import thread_budget

CODECS = ("h264", "hevc", "av1", "vp9", "vp8", "mpeg4", "mpeg2video", "mjpeg", "prores", "ffv1", "vvc")
SHARED_MEMORY = "/dev/shm"
MIN_OPEN_FILES = 4096
"""Torch's workers pass each tensor as an open file, and a pool of decoders keeps its sources open."""
MIN_SHARED_BYTES = 1 << 30
"""Docker gives 64 MB, which the batches of two workers fill."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", nargs="?", metavar="CATALOG", help="also describe this catalog, such as cat.parquet")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print versions, limits and codecs, and warnings about them."""
    facts = examination()
    if args.catalog is not None:
        facts["catalog"] = {"path": args.catalog, **summary(Catalog.open(args.catalog))}
    if args.json:
        say_json(facts)
    else:
        say(*_sections(facts))
    return Exit.WELL


def examination() -> dict[str, Any]:
    """Find out everything, as plain values."""
    budget = thread_budget()
    wanted = list(requirements())
    open_files, shared = resource.getrlimit(resource.RLIMIT_NOFILE)[0], _shared_memory()
    return {
        "versions": _versions(wanted),
        "threads": {"budget": budget.threads, "reasons": list(budget.reasons)},
        "limits": {"open_files": open_files, "shared_memory_bytes": shared},
        "codecs": codec_support(CODECS),
        "extras": _extras(wanted),
        "warnings": [*_outdated(wanted), *_tight(open_files, shared)],
    }


def _versions(wanted: list[Requirement]) -> dict[str, str]:
    needed = {one.name: one.installed or "missing" for one in wanted if not one.extra}
    torch = {"torch": found} if (found := installed_version("torch")) else {}
    return {
        "framefeed": framefeed_version(),
        "python": f"{platform.python_version()} ({platform.system()} {platform.machine()})",
        **needed,
        **torch,
        **ffmpeg_versions(),
    }


def _extras(wanted: list[Requirement]) -> dict[str, dict[str, str | None]]:
    extras: dict[str, dict[str, str | None]] = {}
    for one in wanted:
        if one.extra:
            extras.setdefault(one.extra, {})[one.name] = one.installed
    return extras


def _shared_memory() -> int | None:
    try:
        facts = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return facts.f_frsize * facts.f_blocks


def _outdated(wanted: list[Requirement]) -> Iterator[str]:
    for one in wanted:
        if one.is_too_old:
            yield f"{one.name} {one.installed} is older than {one.floor}, which is required: pip install -U {one.name}"
        elif one.installed is None and not one.extra:
            yield f"{one.name} is missing: pip install {one.name}"


def _tight(open_files: int, shared: int | None) -> Iterator[str]:
    if open_files != resource.RLIM_INFINITY and open_files < MIN_OPEN_FILES:
        yield f"at most {open_files} files can be open at once, which may be too few: run 'ulimit -n {MIN_OPEN_FILES}'"
    if shared is not None and shared < MIN_SHARED_BYTES:
        yield (f"{SHARED_MEMORY} has {shared / 1e6:.0f} MB, which may be too little: PyTorch's workers pass batches "
               "through it; in Docker, use 'docker run --shm-size=2g'")  # fmt: skip


def _sections(facts: dict[str, Any]) -> Iterator[str]:
    yield from table(list(facts["versions"].items()), "ll")
    yield ""
    threads = facts["threads"]
    yield f"thread budget: {threads['budget']}"
    yield from (f"  {reason}" for reason in threads["reasons"])
    limits = facts["limits"]
    shared = limits["shared_memory_bytes"]
    yield f"open files: {limits['open_files'] if limits['open_files'] != resource.RLIM_INFINITY else 'unlimited'}"
    yield f"{SHARED_MEMORY}: {'none' if shared is None else f'{shared / 1e9:.1f} GB'}"
    yield ""
    yield from _codec_lines(facts["codecs"])
    yield ""
    yield from _extra_lines(facts["extras"])
    yield ""
    if "catalog" in facts:
        yield f"catalog {printable(facts['catalog']['path'])}"
        yield from (f"  {line}" for line in sentences(facts["catalog"]))
        yield ""
    yield from (f"warning: {warning}" for warning in facts["warnings"])
    yield _closing(facts)


def _closing(facts: dict[str, Any]) -> str:
    """Sum up the warnings, and what is missing but optional."""
    count = len(facts["warnings"])
    hinders = f"{counted(count, 'warning')}, see above" if count else "everything that framefeed requires is installed"
    lacking = [name for name, packages in facts["extras"].items() if not all(packages.values())]
    unread = [name for name, has in facts["codecs"].items() if not has["decoders"]]
    parts = [hinders]
    if lacking:
        parts.append(f"optional extras with missing packages: {', '.join(lacking)}")
    if unread:
        parts.append(f"codecs that cannot be decoded here: {', '.join(unread)}")
    return "; ".join(parts) if count or lacking or unread else "everything is installed"


def _codec_lines(codecs: dict[str, dict[str, list[str]]]) -> list[str]:
    rows = [[name, *(", ".join(found) or "none" for found in has.values())] for name, has in codecs.items()]
    return table([["codec", "decoders", "encoders"], *rows], "lll")


def _extra_lines(extras: dict[str, dict[str, str | None]]) -> Iterator[str]:
    for extra, packages in extras.items():
        parts = [f"{name} {found}" if found else f"{name} missing" for name, found in packages.items()]
        state = (
            "installed" if all(packages.values()) else f"to install what is missing: pip install 'framefeed[{extra}]'"
        )
        yield f"extra '{extra}': {', '.join(parts)} ({state})"
