"""Options and signatures: they reach every reader and every worker, and no file; versions that a catalog knows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.errors import StaleSource, UnreadableMedia, UsageError
from framefeed.media import MediaSource
from framefeed.media.remote._answers import ObjectVersion
from framefeed.parallel import release_idle
from tests.corpus import corpus_file
from tests.media.remote.faults import Asked, FaultServer, Stored, faulty
from tests.media.remote.getting import forget
from tests.packed import pack
from tests.programs import run_python

SECRET = "Zq7Secret"
SIGNED = f"?v=1&X-Amz-Signature={SECRET}&X-Amz-Expires=60"
HEADERS = {"Authorization": f"Bearer {SECRET}"}
NAMES = ("/a.mp4", "/b.mp4")


@pytest.fixture
def guarded() -> Iterator[FaultServer]:
    """A server of two clips that answers only requests with the header."""
    with faulty({name: corpus_file("base.mp4").read_bytes() for name in NAMES}) as server:
        server.is_refused = lambda asked: asked.headers.get("Authorization") != HEADERS["Authorization"]
        yield server


@pytest.fixture
def signed(server: FaultServer) -> FaultServer:
    """A server of a clip that answers only requests with the signature."""
    server.objects["/a.mp4"] = Stored(corpus_file("base.mp4").read_bytes())
    server.is_refused = lambda asked: SECRET not in asked.target
    return server


def options_for(server: FaultServer) -> dict[str, dict[str, Any]]:
    return {server.url: {"headers": HEADERS}}


def deliver(plan: ff.EpochPlan, **options: Any) -> list[np.ndarray]:
    with ff.ClipLoader(plan, batch_size=1, workers=1, **options) as loader:
        return [batch.data for batch in loader]


def test_every_door_takes_options(guarded: FaultServer) -> None:
    url, given = f"{guarded.url}/a.mp4", options_for(guarded)
    with pytest.raises(UnreadableMedia, match="403"):
        ff.probe(url)
    assert ff.probe(url, storage_options=given).codec == "h264"
    assert len(ff.build_index(url, storage_options=given)) == len(ff.build_index(corpus_file("base.mp4")))
    with ff.VideoDecoder(url, storage_options=given) as decoder:
        decoder[3]
    assert ff.vlm.load_video(url, fps=2, storage_options=given).frames.shape[0] == 8
    request = ff.DecodeRequest(source=url, indices=[0, 3])
    plan = ff.plan_requests([request], storage_options=given)
    deliver(plan)
    assert ff.load_clip(plan[0], storage_options=given).ok.all()
    with pytest.raises(UnreadableMedia, match="403"):
        ff.plan_requests([request])


COPIES: dict[str, Callable[[ff.Catalog], ff.Catalog]] = {
    "itself": lambda catalog: catalog,
    "taken": lambda catalog: catalog.take(range(len(catalog))),
    "sliced": lambda catalog: catalog[0:2],
    "pickled": lambda catalog: pickle.loads(pickle.dumps(catalog)),
    "indexed": lambda catalog: catalog.with_frame_indexes(),
}
# Each process takes a second to start: of copies, what reaches a thread and what a pickle keeps reaches a process too.
KINDS = [
    *(("threads", name) for name in COPIES),
    *(pytest.param("processes", name, marks=[pytest.mark.test_all] * (name != "pickled")) for name in COPIES),
]


@pytest.mark.parametrize(("kind", "copied"), KINDS)
def test_options_go_with_catalogs_and_plans_to_workers_and_into_no_file(
    guarded: FaultServer, kind: str, copied: str, tmp_path: Path
) -> None:
    urls, given, out = [guarded.url + name for name in NAMES], options_for(guarded), tmp_path / "cat.parquet"
    catalog = ff.scan(urls, out=out, storage_options=given)
    assert not catalog.failures
    opened = ff.Catalog.open(out, storage_options=given)
    for each in (catalog, opened) if copied == "itself" else (opened,):
        copy = COPIES[copied](each)
        plan = ff.plan_clips(copy, ff.Dense(2, start=0.0), seed=1, shuffle=False)
        assert SECRET not in f"{copy!r}{plan!r}{plan.state_dict()}{copy.table}{copy.fingerprint}"
        first, second = deliver(plan, kind=kind)
        np.testing.assert_array_equal(first, second)
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    without = ff.plan_clips(ff.Catalog.open(out), ff.Dense(2, start=0.0), seed=1)
    with pytest.raises(UnreadableMedia, match="403"):
        deliver(without)


@pytest.mark.parametrize(("kind", "copied"), KINDS)
def test_signed_urls_are_read_by_the_process_that_has_them_and_its_workers(
    signed: FaultServer, kind: str, copied: str, tmp_path: Path
) -> None:
    catalog = ff.scan([f"{signed.url}/a.mp4{SIGNED}"], out=tmp_path / "cat.parquet")
    copy = COPIES[copied](catalog)
    deliver(ff.plan_clips(copy, ff.Dense(2), seed=1), kind=kind)
    ff.VideoDecoder(copy[0])[0]


def test_signatures_are_in_no_file_and_asked_for_by_who_opens_it(signed: FaultServer, tmp_path: Path) -> None:
    out = tmp_path / "cat.parquet"
    catalog = ff.scan([f"{signed.url}/a.mp4{SIGNED}"], out=out)
    assert catalog.table["source"].to_pylist() == [f"{signed.url}/a.mp4?v=1"]
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    opened = ff.Catalog.open(out)  # as another process would
    before = signed.count()
    with pytest.raises(UsageError, match=r"scan the signed URLs in the process that trains.*storage_options"):
        deliver(ff.plan_clips(opened, ff.Dense(2), seed=1))
    assert signed.count() == before
    signed.is_refused = lambda asked: False
    given = {signed.url: {"headers": {"X-A": "b"}}}
    deliver(ff.plan_clips(ff.Catalog.open(out, storage_options=given), ff.Dense(2), seed=1))


def test_a_second_scan_with_new_signatures_finds_the_same_objects(server: FaultServer, tmp_path: Path) -> None:
    server.objects["/a.mp4"] = Stored(corpus_file("base.mp4").read_bytes())
    out = tmp_path / "cat.parquet"
    first = ff.scan([f"{server.url}/a.mp4{SIGNED}"], out=out)
    second = ff.scan([f"{server.url}/a.mp4{SIGNED.replace(SECRET, 'other')}"], out=out)
    assert first.table.equals(second.table)
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize("options", [{"headers": {"Range": "bytes=0-1"}}, {"key": "a"}, {"headers": 3}])
def test_wrong_options_are_refused_before_anything_is_asked(server: FaultServer, options: dict[str, Any]) -> None:
    given = {server.url: options}
    for call in (
        lambda: ff.probe(server.url + "/a.mp4", storage_options=given),
        lambda: ff.scan([server.url + "/a.mp4"], storage_options=given),
        lambda: ff.VideoDecoder(server.url + "/a.mp4", storage_options=given),
    ):
        with pytest.raises(UsageError, match="storage_options"):
            call()
    assert not server.asked


def test_a_process_with_a_catalog_asks_for_no_fingerprint(server: FaultServer, tmp_path: Path) -> None:
    server.objects["/a.mp4"] = Stored(corpus_file("base.mp4").read_bytes())
    catalog = ff.scan([f"{server.url}/a.mp4"], out=tmp_path / "cat.parquet")
    (version,) = catalog.table["source_version"].to_pylist()
    assert version == f'{len(server.objects["/a.mp4"].data)} "one"'
    forget()
    before = server.count()
    with ff.VideoDecoder(catalog[0]) as decoder:
        decoder[0]
    asked: list[Asked] = server.asked[before:]
    assert len(asked) == 1
    assert asked[0].headers["If-Match"] == '"one"'


@pytest.mark.parametrize("etag", ['"two"', None])
def test_D09_the_same_bytes_under_another_version_are_accepted(server: FaultServer, etag: str | None) -> None:
    data = corpus_file("base.mp4").read_bytes()
    server.objects["/a.mp4"] = Stored(data)
    catalog = ff.scan([f"{server.url}/a.mp4"])
    plan = ff.plan_clips(catalog, ff.Dense(4), seed=1, clips_per_video=3)
    right = deliver(plan)
    for modified in ("Thu, 22 Oct 2026 07:28:00 GMT", "Fri, 23 Oct 2026 07:28:00 GMT"):
        server.objects["/a.mp4"] = Stored(data, etag, modified)
        if modified.startswith("Fri"):
            forget()
        else:
            release_idle()  # and the process knows the version of the scan
        np.testing.assert_array_equal(deliver(plan), right)
    server.objects["/a.mp4"] = Stored(data[:-1] + bytes([data[-1] ^ 1]), '"three"')
    for begin in (release_idle, forget):
        begin()
        with pytest.raises(StaleSource, match="has changed"):
            deliver(plan)


def test_a_catalog_without_versions_compares_fingerprints(server: FaultServer, tmp_path: Path) -> None:
    data = corpus_file("base.mp4").read_bytes()
    server.objects["/a.mp4"] = Stored(data, None, None)
    catalog = ff.scan([f"{server.url}/a.mp4"])
    assert "source_version" not in catalog.table.column_names
    for other in (data + b"x", data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]):  # The second has as many bytes.
        server.objects["/a.mp4"] = Stored(other, None, None)
        forget()
        with pytest.raises(StaleSource):
            deliver(ff.plan_clips(catalog, ff.Dense(2), seed=1))
    assert ObjectVersion.parse("7") is None


def test_a_part_of_a_remote_archive_is_read_by_ranges(guarded: FaultServer) -> None:
    data = corpus_file("base.mp4").read_bytes()
    archive = pack([("one.bin", bytes(3 << 20)), ("a/b.mp4", data), ("two.bin", bytes(3 << 20))])
    guarded.objects["/x.tar"] = Stored(archive)
    text = f"tar://a/b.mp4::{guarded.url}/x.tar"
    request = ff.DecodeRequest(source=text, indices=[0, 5])
    plan = ff.plan_requests([request], storage_options=options_for(guarded))
    (frames,) = deliver(plan)
    with ff.VideoDecoder(corpus_file("base.mp4")) as decoder:
        np.testing.assert_array_equal(frames[0], decoder.get_frames_at([0, 5]).data)
    fetched = sum(stop - start for start, stop in filter(None, guarded.ranges))
    assert fetched < 1 << 20
    forget()
    before = guarded.count()
    deliver(plan)
    assert guarded.count() == before + 1  # the clip alone: its place and its version are known
    guarded.objects["/x.tar"] = Stored(archive, '"two"')
    forget()
    np.testing.assert_array_equal(deliver(plan)[0], frames)
    changed = archive.replace(data, data[:-1] + bytes([data[-1] ^ 1]))
    guarded.objects["/x.tar"] = Stored(changed, '"three"')
    forget()
    with pytest.raises(StaleSource):
        deliver(plan)


def test_options_are_in_no_repr(guarded: FaultServer) -> None:
    source = MediaSource.of(f"{guarded.url}/a.mp4", options_for(guarded))
    assert SECRET not in repr(source)
    assert SECRET not in repr(ff.scan([f"{guarded.url}/a.mp4"], storage_options=options_for(guarded))[0])


def test_a_spawned_worker_has_the_signature(signed: FaultServer, tmp_path: Path) -> None:
    catalog = ff.scan([f"{signed.url}/a.mp4{SIGNED}"], out=tmp_path / "cat.parquet")
    plan = ff.plan_clips(catalog, ff.Dense(2), seed=1)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    script = "import sys, pickle; plan = pickle.load(open(sys.argv[1], 'rb')); import framefeed as ff; " \
        "print(len(list(ff.ClipLoader(plan, batch_size=1, workers=1))))"  # fmt: skip
    ran = run_python("-c", script, str(tmp_path / "plan"))
    assert ran.stdout.strip() == "1", ran.stderr


def test_braces_are_expanded_with_the_options_of_the_scan(guarded: FaultServer) -> None:
    catalog = ff.scan(f"{guarded.url}/{{a,b}}.mp4", storage_options=options_for(guarded))
    assert [source.rpartition("/")[2] for source in catalog.table["source"].to_pylist()] == ["a.mp4", "b.mp4"]
    assert not catalog.failures
    assert all(asked.headers.get("Authorization") == HEADERS["Authorization"] for asked in guarded.asked)
