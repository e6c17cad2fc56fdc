"""The clips of some hundred plans, and batches of them, as documents with a short hash each.

``python -m tests.golden.plans --renew`` writes the hashes that the tests compare with; ``--show NAME`` prints the
document behind a hash, or those of all names that begin so, to be compared between two checkouts. The plans are in
`plan_cases` and its neighbours; `clip_documents` makes the documents, which any code that gives the same clips shares.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests import makers
from tests.corpus_folder import corpus_folder
from tests.golden import plan_cases, rest_cases, robot_cases, stream_cases
from tests.lerobot import cases
from tests.load import stream_media

HASHES = Path(__file__).with_name("plans.json")
GROUPS = {**plan_cases.GROUPS, **stream_cases.GROUPS, **rest_cases.GROUPS, **robot_cases.GROUPS}


def documents(group: str, folder: Path) -> dict[str, str]:
    """Make the documents of a group as JSON, by their names; warnings of a plan are a document too."""
    made: dict[str, str] = {}
    places = {
        str(folder): "FOLDER",
        str(corpus_folder()): "CORPUS",
        str(makers.folder()): "MEDIA",
        str(stream_media.folder()): "STREAMS",
        str(cases.HERE): "LEROBOT",
    }

    def put(name: str, document: Any) -> None:
        text = json.dumps(document, sort_keys=True)
        for path, place in places.items():
            text = text.replace(path, place)
        assert made.setdefault(f"{group}: {name}", text) is text, f"two documents are named {name}"

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        patch.setenv("XDG_CACHE_HOME", str(folder / "user cache"))
        warnings.simplefilter("always")
        for name, document in GROUPS[group](folder):
            put(name, document)
            if warned := [str(each.message) for each in caught if each.category is UserWarning]:
                put(f"{name}, warnings", warned)
            caught.clear()
    return made


def hash_documents(made: dict[str, str]) -> dict[str, str]:
    """Hash each document."""
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in made.items()}


def known() -> dict[str, str]:
    """Read the hashes."""
    hashes: dict[str, str] = json.loads(HASHES.read_text())
    return hashes


def main() -> None:
    parser = argparse.ArgumentParser()
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--renew", action="store_true", help="write the hashes")
    task.add_argument("--show", metavar="NAME", help="print the document of this name, or those whose names begin so")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="framefeed-golden-") as folder:
        if given.renew:
            parts = [hash_documents(documents(group, Path(folder))) for group in GROUPS]
            hashes = {name: each for part in parts for name, each in part.items()}
            HASHES.write_text(json.dumps(hashes, indent=0) + "\n")
            return
        made = documents(given.show.partition(":")[0], Path(folder))
        for name in [given.show] if given.show in made else [name for name in made if name.startswith(given.show)]:
            print(name, json.dumps(json.loads(made[name]), indent=1), sep="\n")


if __name__ == "__main__":
    main()
