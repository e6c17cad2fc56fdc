"""D09: objects that are replaced while clips are read: accepted where the bytes are the same, else stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

import framefeed as ff
from framefeed._values import read_bytes
from framefeed.media import MediaSource
from framefeed.media.remote._answers import ObjectVersion
from framefeed.media.remote._prices import MOST_GAP_BYTES
from framefeed.media.remote._reader import FetchedAhead, RangeReader
from framefeed.media.remote._targets import HttpTarget
from framefeed.parallel import release_idle
from tests.corpus import corpus_file
from tests.lengths import pairwise
from tests.makers import folder
from tests.media.remote.faults import FaultServer, Stored, faulty
from tests.media.remote.getting import forget
from tests.packed import pack

EARLIER = "Wed, 21 Oct 2026 07:28:00 GMT"
LATER = "Thu, 22 Oct 2026 07:28:00 GMT"
VIDEOS = [(path.name, path.read_bytes()) for path in sorted(folder().rglob("*.mp4"))[:3]]
OBJECTS = {
    "mp4": {f"/{name}": data for name, data in VIDEOS},
    "mkv": {"/a.mkv": corpus_file("open_gop.mkv").read_bytes()},
    "tar": {"/a.tar": pack(VIDEOS)},
}


@pytest.fixture(params=list(OBJECTS))
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FaultServer, ff.Catalog]]:
    """A server, and a catalog of its objects as a process opens it that has read none of them."""
    with faulty(OBJECTS[request.param]) as server:
        ff.scan([server.url + name for name in OBJECTS[request.param]], out=tmp_path / "cat.parquet")
        forget()
        yield server, ff.Catalog.open(tmp_path / "cat.parquet")


def replace(
    server: FaultServer,
    catalog: ff.Catalog,
    *,
    is_other: bool = False,
    etag: str | None = '"two"',
    modified: str | None = LATER,
) -> None:
    """Replace all objects; other ones differ in a byte behind the first ones of each medium."""
    for name, stored in server.objects.items():
        data = bytearray(stored.data)
        for row in range(len(catalog)) if is_other else ():
            columns = catalog.table.slice(row, 1).to_pylist()[0]
            if name in columns["source"]:
                data[columns["source_offset"] + columns["bytes"] - 9 if columns.get("source_offset") else -9] ^= 1
        server.objects[name] = Stored(bytes(data), etag, modified)


@pytest.mark.parametrize("name", list(OBJECTS))
@pytest.mark.parametrize("version", [('W/"one"', 'W/"two"', None, None), (None, None, EARLIER, LATER)])
def test_D09_weak_versions_tell_objects_apart(name: str, version: tuple[str | None, ...]) -> None:
    """The objects were accepted by this process, which compares versions alone from then on."""
    etag, new_etag, modified, new_modified = version
    with faulty({path: Stored(data, etag, modified) for path, data in OBJECTS[name].items()}) as server:
        catalog = ff.scan([server.url + path for path in OBJECTS[name]])
        release_idle()
        replace(server, catalog, is_other=True, etag=new_etag, modified=new_modified)
        for entry in catalog:
            with ff.VideoDecoder(entry) as decoder, pytest.raises(ff.StaleSource):
                decoder[len(decoder) - 1]


def test_D09_other_bytes_are_refused_by_each_reader(served: tuple[FaultServer, ff.Catalog]) -> None:
    server, catalog = served
    replace(server, catalog, is_other=True)
    for entry in catalog:
        with ff.VideoDecoder(entry) as decoder, pytest.raises(ff.StaleSource):
            decoder[len(decoder) - 1]


def test_D09_the_same_bytes_are_accepted_by_open_decoders(served: tuple[FaultServer, ff.Catalog]) -> None:
    server, catalog = served
    for entry in catalog:
        with ff.VideoDecoder(entry) as decoder:
            before = [decoder[number] for number in (0, len(decoder) - 1)]
            release_idle()  # what it keeps of the object
            decoder[0]
            replace(server, catalog)
            after = [decoder[number] for number in (len(decoder) - 1, 0)]
        for one, other in zip(before, reversed(after), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("served", "kind", "read_ahead", "workers"),
    pairwise(list(OBJECTS), ["threads", "processes"], [0, "64MB"], [1, 2]),
    indirect=["served"],
)
def test_D09_loaders_go_on_with_the_same_bytes(
    kind: str, read_ahead: int | str, workers: int, served: tuple[FaultServer, ff.Catalog]
) -> None:
    server, catalog = served
    requests = [ff.DecodeRequest(entry, indices=[first, 9 - first]) for first in range(4) for entry in catalog]
    plan = ff.plan_requests(requests, size=(32, 32))
    with ff.ClipLoader(plan, batch_size=2, workers=workers, kind=kind, read_ahead=read_ahead) as loader:  # type: ignore[arg-type]
        before = [batch.data.copy() for batch in loader]
        replace(server, catalog)
        after = [batch.data.copy() for batch in loader]
    np.testing.assert_array_equal(np.concatenate(before), np.concatenate(after))


def test_D09_another_version_is_confirmed_without_what_was_asked_of_the_first() -> None:
    data = bytes(range(256)) * 800
    with faulty({"/a": Stored(data)}) as server:
        target, first = HttpTarget(f"{server.url}/a"), ObjectVersion(len(data), '"one"')
        ahead = FetchedAhead(target, [(0, 100_000)], first)
        for part in ahead.parts:
            part.wait("a")
        server.objects["/a"] = Stored(data, '"two"', LATER)
        late = FetchedAhead(target, [(150_000, 160_000)], first)

        def confirm() -> ObjectVersion:
            reader = RangeReader(target)
            assert read_bytes(reader, 0, len(data)) == data
            assert reader.version is not None
            return reader.version

        reader = RangeReader(target, first, confirm)
        assert read_bytes(reader, 155_000, 100) == data[155_000:155_100]
        assert read_bytes(reader, 0, 100) == data[:100]
        assert reader.version == ObjectVersion(len(data), '"two"', LATER)
        assert (ahead.parts, late.parts) == ([], [])
        reader.close()


def test_D09_what_was_announced_of_the_first_version_is_asked_for_again() -> None:
    data = bytes(range(256)) * (MOST_GAP_BYTES // 128)
    second = ObjectVersion(len(data), '"two"', LATER)
    with faulty({"/a": Stored(data, second.etag, second.modified)}) as server:
        reader = RangeReader(HttpTarget(f"{server.url}/a"), ObjectVersion(len(data), '"one"'), lambda: second)
        ranges = [(0, 100), (len(data) - 100, len(data))]
        reader.announce(ranges)  # Two requests, both under way before the first answer says that there is another.
        for start, stop in ranges:
            assert read_bytes(reader, start, stop - start) == data[start:stop]
        reader.close()


def test_D09_one_reader_is_of_one_version() -> None:
    data = bytes(range(256)) * 800
    with faulty({"/a": Stored(data)}) as server, MediaSource.of(f"{server.url}/a").opened() as reader:
        assert read_bytes(reader, 0, 100) == data[:100]
        server.objects["/a"] = Stored(data, '"two"', LATER)
        with pytest.raises(ff.StaleSource):
            read_bytes(reader, len(data) - 100, 100)


@pytest.mark.parametrize(("query", "renewed"), [("", ""), ("?X-Amz-Signature=s", ", by a URL with a new signature .*")])
def test_S17_who_scanned_by_a_signature_is_told_to_renew_it(query: str, renewed: str) -> None:
    with faulty({"/a.mp4": VIDEOS[0][1]}) as server:
        catalog = ff.scan([f"{server.url}/a.mp4{query}"])
        forget()
        replace(server, catalog, is_other=True)
        with ff.VideoDecoder(catalog[0]) as decoder, pytest.raises(ff.StaleSource, match=f"index it again{renewed}$"):
            decoder[0]
        again = ff.scan([f"{server.url}/a.mp4{query and query + 'new'}"])
        with ff.VideoDecoder(again[0]) as decoder:
            assert len(decoder[0])
