from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.errors import UsageError
from framefeed.request._request import DecodeRequest, OutputSpec
from tests.fakes import FakeCatalog, steady_index


def full() -> DecodeRequest:
    return DecodeRequest(
        "a.mp4", [1, 2], OutputSpec((3, 4), (0, 0, 6, 8)), segment=[0, 1], start_seconds=0.5, end_seconds=2
    )


def test_a_request_is_a_value() -> None:
    for request in (full(), DecodeRequest(b"bytes", seconds=[0.5]), DecodeRequest("x", indices=np.arange(3))):
        copy = pickle.loads(pickle.dumps(request))
        assert copy == request
        assert hash(copy) == hash(request)
        assert copy.source == request.source
    assert full() != DecodeRequest("a.mp4", [1, 2])
    assert len({full(), full()}) == 1


def test_its_columns_are_its_own_and_cannot_be_written() -> None:
    given = np.array([3, 4])
    request = DecodeRequest("a", given)
    given[0] = 9
    assert request.indices is not None
    assert request.indices.tolist() == [3, 4]
    with pytest.raises(ValueError, match="read-only"):
        request.indices[0] = 1
    with pytest.raises(AttributeError):
        request.source = "b"


def test_a_source_may_be_a_path_or_a_catalog_entry() -> None:
    entry = FakeCatalog([steady_index(3)])[0]
    request = DecodeRequest(entry, [0])
    assert (request.source, request.entry) == ("video0.mp4", entry)
    assert request == DecodeRequest("video0.mp4", [0])
    assert DecodeRequest(Path("a") / "b.mp4", [0]).source == str(Path("a") / "b.mp4")


def test_a_repr_shows_the_shape_and_not_the_data() -> None:
    assert repr(DecodeRequest(b"\0" * 5000, [1] * 90)).startswith("DecodeRequest('<5000 bytes>', 90 frames")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("a",), {}),
        (("a", [1]), {"seconds": [1.0]}),
        (("a", [1.5]), {}),
        (("a", [[1]]), {}),
        (("a", [1]), {"segment": [0, 1]}),
        ((7, [1]), {}),
        ((None, [1]), {}),
    ],
)
def test_a_wrong_request_is_refused(arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        DecodeRequest(*arguments, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"size": (0, 3)},
        {"size": (3,)},
        {"size": 3},
        {"size": (3.0, 4)},
        {"size": (True, 4)},
        {"size": {3, 4}},
        {"size": {3: 0, 4: 0}},
        {"crop": (0, 0, 1)},
        {"dimension_order": "CHW"},
    ],
    ids=repr,
)
def test_a_wrong_form_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        OutputSpec(**options)


def test_equal_forms_hash_alike() -> None:
    assert len({OutputSpec((3, 4)), OutputSpec([3, 4]), OutputSpec(np.array([3, 4]))}) == 1
    assert OutputSpec(crop=(1, 2, 30, 40)).shape(99, 99) == (3, 30, 40)
    assert OutputSpec(dimension_order="NHWC").shape(5, 6) == (5, 6, 3)


def test_encoded_bytes_may_be_in_any_buffer_and_an_array_is_told_how() -> None:
    assert DecodeRequest(bytearray(b"ab"), [0]) == DecodeRequest(memoryview(b"ab"), [0]) == DecodeRequest(b"ab", [0])
    with pytest.raises(UsageError, match=r"array\.tobytes\(\)"):
        DecodeRequest(np.zeros(2, dtype=np.uint8), [0])  # type: ignore[arg-type]
