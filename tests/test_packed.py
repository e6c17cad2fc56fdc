"""Media in tar archives are what they are unpacked: facts, frames and batches; and never bytes of two archives."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.catalog import SurveyOptions
from framefeed.scanning import ScanRequest, scan_roots
from tests.media.files import READABLE, readable_path
from tests.media.remote.faults import FaultServer, faulty
from tests.packed import Members, get_facts, make_media, pack, unpack

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
SIZE = (48, 64)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Members:
    return make_media(tmp_path_factory.mktemp("media"))


@pytest.fixture
def folder(media: Members, tmp_path: Path) -> Path:
    return unpack(media, tmp_path / "unpacked")


@pytest.fixture
def server(media: Members, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with faulty({"/m.tar": pack(media)}) as server:
        yield server


def write(path: Path, members: Members, form: int = tarfile.PAX_FORMAT) -> Path:
    path.write_bytes(pack(members, form))
    return path


def make_plan(catalog: ff.Catalog, **options: Any) -> ff.EpochPlan:
    return ff.plan_clips(catalog, ff.RandomSegments(3), seed=3, size=SIZE, clips_per_video=2, **options)


def load(plan: ff.EpochPlan, **options: Any) -> list[np.ndarray]:
    with ff.ClipLoader(plan, batch_size=4, **options) as loader:
        return [np.asarray(batch.frames).copy() for batch in loader]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", FORMATS)
def test_a_scan_of_an_archive_is_that_of_the_unpacked_folder(
    form: str, media: Members, folder: Path, tmp_path: Path
) -> None:
    packed = ff.scan(write(tmp_path / "m.tar", media, FORMATS[form]), label_from="parent", verify="full")
    unpacked = ff.scan(folder, label_from="parent", verify="full")
    assert get_facts(packed).equals(get_facts(unpacked))
    assert [type(error) for error in packed.errors] == [type(error) for error in unpacked.errors]


def test_every_hard_file_has_the_same_facts_in_an_archive(tmp_path: Path) -> None:
    names = sorted({Path(name).name for name in READABLE}, key=str.encode)
    members = [(f"{number:03}_{name.replace('.', '_', name.count('.') - 1)}", readable_path(name).read_bytes())
               for number, name in enumerate(names) if "." in name]  # fmt: skip
    packed = ff.scan(write(tmp_path / "m.tar", members))
    unpacked = ff.scan(unpack(members, tmp_path / "unpacked"))
    assert get_facts(packed).equals(get_facts(unpacked))
    opened = ff.Catalog.open(_save(packed, tmp_path / "p.parquet"))
    for row in range(0, len(opened), 7):
        if opened.table["num_key_frames"][row].as_py() is not None:
            np.testing.assert_array_equal(_read_first(opened, row), _read_first(unpacked, row))


def _save(catalog: ff.Catalog, path: Path) -> Path:
    catalog.to_parquet(path)
    return path


def _read_first(catalog: ff.Catalog, row: int) -> np.ndarray:
    with ff.VideoDecoder(catalog[row]) as decoder:
        return np.asarray(decoder[0].data)


def test_a_member_is_opened_by_its_name(media: Members, folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "m.tar", media)
    for name in [name for name, data in media if name.endswith(".mp4") and data]:
        with ff.VideoDecoder(f"tar://{name}::{path}") as packed, ff.VideoDecoder(folder / name) as unpacked:
            assert len(packed) == len(unpacked)
            np.testing.assert_array_equal(np.asarray(packed[5].data), np.asarray(unpacked[5].data))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_archives_files_and_urls_are_those_of_the_unpacked(
    workers: int, media: Members, folder: Path, server: FaultServer, tmp_path: Path
) -> None:
    third = len(media) // 3
    write(tmp_path / "first.tar", media[:third])
    server.objects["/m.tar"].data = pack(media[2 * third :])
    files = [folder / name for name, _ in media[third : 2 * third]]
    mixed = ff.scan([tmp_path / "first.tar", *files, f"{server.url}/m.tar"], out=tmp_path / "cat.parquet")
    unpacked = ff.scan(folder)
    assert get_facts(mixed).equals(get_facts(unpacked))
    expected = load(make_plan(unpacked), workers=0)
    assert len(expected) > 2
    assert_same(load(make_plan(ff.Catalog.open(tmp_path / "cat.parquet")), workers=workers), expected)


def test_batches_of_processes_and_of_a_cache_are_those_of_the_unpacked(
    media: Members, folder: Path, tmp_path: Path
) -> None:
    expected = load(make_plan(ff.scan(folder)), workers=0)
    plan = make_plan(ff.scan(write(tmp_path / "m.tar", media)))
    assert_same(load(plan, workers=2, worker_type="processes"), expected)
    cache = ff.FrameCache(tmp_path / "cache")
    assert_same(load(plan, workers=0, cache=cache), expected)
    # The cache's keys are those of the files: it does not matter that they were packed.
    with ff.ClipLoader(make_plan(ff.scan(folder)), batch_size=4, workers=0, cache=cache) as loader:
        assert_same([np.asarray(batch.frames).copy() for batch in loader], expected)
        assert loader.stats()["decoded_frames"] == 0


def test_a_second_scan_opens_no_member_of_an_archive_of_the_same_version(media: Members, tmp_path: Path) -> None:
    write(tmp_path / "a.tar", media)
    write(tmp_path / "b.tar", media)
    roots, out = [tmp_path / "a.tar", tmp_path / "b.tar"], tmp_path / "cat.parquet"

    def scan() -> tuple[int, int]:
        done = scan_roots([str(root) for root in roots], ScanRequest(SurveyOptions(progress=False), out))
        return done.stats.known, done.stats.surveyed

    assert scan() == (0, 2 * len(media))
    assert scan() == (2 * len(media), 0)
    write(tmp_path / "b.tar", [("0.jpg", b"new"), *media])
    assert scan() == (len(media), len(media) + 1)


def test_an_archive_with_the_same_media_in_another_version_is_read_on(media: Members, tmp_path: Path) -> None:
    path = write(tmp_path / "m.tar", media)
    plan = make_plan(ff.scan(path, out=tmp_path / "cat.parquet"))
    expected = load(plan, workers=0)
    write(path, [*media, ("more.txt", b"x" * 10_000)])
    assert_same(load(make_plan(ff.Catalog.open(tmp_path / "cat.parquet")), workers=0), expected)


@pytest.mark.parametrize("change", ["shifted", "other media", "shorter"])
def test_an_archive_that_was_replaced_is_stale(change: str, media: Members, tmp_path: Path) -> None:
    videos = [(name, data) for name, data in media if name.endswith(".mp4") and data]
    path = write(tmp_path / "m.tar", videos)
    catalog = ff.scan(path)
    others = {
        "shifted": [("0.txt", b"x"), *videos],
        "other media": [(name, data) for (name, _), (_, data) in zip(videos, [*videos[1:], videos[0]], strict=True)],
        "shorter": videos[:1],
    }
    write(path, others[change])
    with pytest.raises(ff.StaleSource, match=r"m\.tar"):
        load(make_plan(catalog), workers=0)


def test_a_url_that_is_replaced_while_a_loader_reads_is_stale(media: Members, server: FaultServer) -> None:
    videos = [(name, data) for name, data in media if name.endswith(".mp4") and data]
    server.objects["/m.tar"].data = pack(videos)
    catalog = ff.scan(f"{server.url}/m.tar")
    plan = make_plan(catalog)
    expected = load(plan, workers=0)
    with ff.ClipLoader(plan, batch_size=1, workers=0, read_ahead=0) as loader:
        batches = iter(loader)
        next(batches)
        server.objects["/m.tar"].data = pack([(name, data[::-1]) for name, data in videos])
        server.objects["/m.tar"].etag = '"two"'
        with pytest.raises(ff.StaleSource):
            list(batches)
    server.objects["/m.tar"].data = pack(videos)
    assert_same(load(plan, workers=0), expected)  # The same bytes under another tag.
