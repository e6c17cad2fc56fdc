"""Scans of which no row can be read say why in one line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.scanning import _explanations
from tests.remote import served

PAGE = b"<html>a list of files</html>"


@pytest.mark.parametrize("given", [["/x/"], ["/x/", "/y/"], ["/y/", "/z/"]])
def test_folders_of_http_are_said_not_to_be_listed(given: list[str]) -> None:
    with served({"/x/": PAGE, "/y/": PAGE}) as url, pytest.warns(UserWarning, match="cannot be listed") as caught:
        ff.scan([url + path for path in given])
    assert len(caught) == 1
    with served({}) as url, pytest.raises(ff.MissingMedia, match=r"/x/: folders of http\(s\) cannot be listed"):
        ff.scan(f"{url}/x/")


def test_many_failed_rows_are_explained_by_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_explanations, "_MANY_FAILED", 3)
    for name in "abc":
        (tmp_path / f"{name}.mp4").write_bytes(b"some text")
    with pytest.warns(UserWarning, match=r"none of the 3 rows can be read, for example .*a\.mp4: is text, not media"):
        ff.scan(tmp_path)
    (tmp_path / "a.mp4").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ff.scan(tmp_path)


@pytest.mark.parametrize("kind", ["one", "several", "by split"])
def test_a_data_set_of_hugging_face_is_refused_with_its_table_and_its_files(kind: str) -> None:
    one = type("Dataset", (), {"__module__": "datasets.arrow_dataset"})()
    by_split = type("DatasetDict", (dict,), {"__module__": "datasets.dataset_dict"})(train=one)
    given: Any = {"one": one, "several": [one], "by split": by_split}[kind]
    with pytest.raises(ff.UsageError, match=r"Hugging Face: .* dataset\.data\.table .*hf://datasets/ORG/NAME/"):
        ff.scan(given)
