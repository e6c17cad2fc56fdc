"""Media in tar archives are what they are unpacked: facts, frames and batches; and never bytes of two archives."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="the tests' server needs it")

import framefeed as ff
from framefeed.catalog import SurveyOptions
from framefeed.errors import UsageError
from framefeed.media import Part
from framefeed.scanning import ScanRequest, scan_roots
from framefeed.scanning._tar_rows import ArchiveRows, TarRowMaker
from tests.judges import assert_same_arrays
from tests.media.files import READABLE, readable_path
from tests.media.remote.faults import FaultServer, faulty
from tests.packed import (
    Members,
    choose_videos,
    get_facts,
    load_frames,
    pack,
    plan_frames,
    read_frames,
    unpack,
)

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
SIZE = (48, 64)
# Two media are broken.
pytestmark = pytest.mark.filterwarnings("ignore:.* rows are left out of this plan:UserWarning")


@pytest.fixture
def server(media: Members) -> Iterator[FaultServer]:
    with faulty({"/m.tar": pack(media)}) as server:
        yield server


def write(path: Path, members: Members, form: int = tarfile.PAX_FORMAT) -> Path:
    path.write_bytes(pack(members, form))
    return path


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


def test_labels_in_json_are_targets_with_columns_and_a_plan_without_says_so(media: Members, tmp_path: Path) -> None:
    names = [name for name, _ in choose_videos(media)]
    labels = [(name.replace(".mp4", ".json"), b'{"label": %d}' % number) for number, name in enumerate(names)]
    path = write(tmp_path / "m.tar", sorted([*labels, *((name, dict(media)[name]) for name in names)]))
    with pytest.raises(UsageError, match=r'columns=\{"label": "json.label"\}'):
        ff.plan_clips(ff.scan(path), ff.Dense(2), seed=0, size=SIZE, columns=["label"])
    catalog = ff.scan(path, columns={"label": "json.label"})
    assert sorted(catalog.classes) == list(range(len(names)))
    ff.plan_clips(catalog, ff.Dense(2), seed=0, size=SIZE, columns=["label"])


def test_a_member_is_opened_by_its_name(media: Members, folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "m.tar", media)
    for name in [name for name, _ in choose_videos(media)]:
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
    expected = read_frames(unpacked)
    assert len(expected) > 2
    assert_same_arrays(read_frames(ff.Catalog.open(tmp_path / "cat.parquet"), workers=workers), expected)


def test_batches_of_processes_and_of_torch_are_those_of_the_unpacked(
    media: Members, folder: Path, tmp_path: Path
) -> None:
    expected = read_frames(ff.scan(folder))
    plan = plan_frames(ff.scan(write(tmp_path / "m.tar", media)))
    assert_same_arrays(load_frames(plan, workers=1, kind="processes"), expected)
    pytest.importorskip("torch")
    clips = [np.asarray(clip) for batch in expected for clip in batch]
    dataset = ff.torch.ClipDataset(plan)
    assert_same_arrays([np.asarray(dataset[position]["data"]) for position in range(len(plan))], clips)


def test_a_cache_of_files_has_the_frames_of_archives(media: Members, folder: Path, tmp_path: Path) -> None:
    cache, rule = ff.FrameCache(tmp_path / "cache"), ff.Uniform(3)
    expected = read_frames(ff.scan(folder), rule, cache=cache)
    plan = plan_frames(ff.scan(write(tmp_path / "m.tar", media)), rule)
    with ff.ClipLoader(plan, batch_size=4, workers=0, cache=cache) as loader:
        assert_same_arrays([np.asarray(batch.data).copy() for batch in loader], expected)
        assert loader.stats().counts.frames_decoded == 0


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
    plan = plan_frames(ff.scan(path, out=tmp_path / "cat.parquet"))
    expected = load_frames(plan)
    write(path, [*media, ("more.txt", b"x" * 10_000)])
    assert_same_arrays(read_frames(ff.Catalog.open(tmp_path / "cat.parquet")), expected)


@pytest.mark.parametrize("change", ["shifted", "other media", "shorter"])
def test_an_archive_that_was_replaced_is_stale(change: str, media: Members, tmp_path: Path) -> None:
    videos = choose_videos(media)
    path = write(tmp_path / "m.tar", videos)
    catalog = ff.scan(path)
    others = {
        "shifted": [("0.txt", b"x"), *videos],
        "other media": [(name, data) for (name, _), (_, data) in zip(videos, [*videos[1:], videos[0]], strict=True)],
        "shorter": videos[:1],
    }
    write(path, others[change])
    with pytest.raises(ff.StaleSource, match=r"m\.tar"):
        read_frames(catalog)


def test_a_url_that_is_replaced_while_a_loader_reads_is_stale(media: Members, server: FaultServer) -> None:
    videos = choose_videos(media)
    server.objects["/m.tar"].data = pack(videos)
    plan = plan_frames(ff.scan(f"{server.url}/m.tar"))
    with ff.ClipLoader(plan, batch_size=1, workers=0, read_ahead=0) as loader:
        batches = iter(loader)
        next(batches)
        server.objects["/m.tar"].data = pack([(name, data[::-1]) for name, data in videos])
        server.objects["/m.tar"].etag = '"two"'
        with pytest.raises(ff.StaleSource, match=r"m\.tar"):
            list(batches)


def test_a_url_with_the_same_media_under_another_tag_is_read_on(
    media: Members, folder: Path, server: FaultServer
) -> None:
    plan = plan_frames(ff.scan(f"{server.url}/m.tar"))
    server.objects["/m.tar"].data = pack([*media, ("more.txt", b"x" * 10_000)])
    server.objects["/m.tar"].etag = '"two"'
    assert_same_arrays(load_frames(plan), read_frames(ff.scan(folder)))


def test_S17_a_signed_url_of_an_archive_is_read_and_not_kept(
    media: Members, folder: Path, server: FaultServer, tmp_path: Path
) -> None:
    catalog = ff.scan(f"{server.url}/m.tar?X-Amz-Signature=sEcReT&part=1", out=tmp_path / "cat.parquet")
    assert get_facts(catalog).equals(get_facts(ff.scan(folder)))
    assert_same_arrays(read_frames(catalog), read_frames(ff.scan(folder)))
    assert "sEcReT" not in str(catalog.table.to_pylist())
    assert not any(b"sEcReT" in path.read_bytes() for path in tmp_path.glob("cat.parquet*"))


def test_a_catalog_moves_with_its_archives(media: Members, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data/shards").mkdir(parents=True)
    write(tmp_path / "data/shards/m.tar", media)
    catalog = ff.scan(tmp_path / "data", root=tmp_path / "data", out=tmp_path / "data/cat.parquet")
    assert catalog.table["source"][0].as_py() == f"tar://{media[0][0]}::shards/m.tar"
    expected = read_frames(catalog)
    (tmp_path / "data").rename(tmp_path / "moved")
    assert_same_arrays(read_frames(ff.Catalog.open(tmp_path / "moved/cat.parquet")), expected)


MISTAKES: dict[str, Callable[[ArchiveRows], ArchiveRows]] = {
    "the header is taken for the first bytes": lambda rows: replace(rows, offset=rows.offset - 512),
    "each name has the next bytes": lambda rows: replace(
        rows, offset=np.roll(rows.offset, 1), size=np.roll(rows.size, 1)
    ),
    "the padding is taken for data": lambda rows: replace(rows, size=-(-rows.size // 512) * 512),
    "another order": lambda rows: replace(
        rows, names=rows.names[::-1], offset=rows.offset[::-1].copy(), size=rows.size[::-1].copy()
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_law_catches_mistakes(
    mistake: str, media: Members, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = TarRowMaker.finish
    monkeypatch.setattr(TarRowMaker, "finish", lambda *given: MISTAKES[mistake](finish(*given)))
    with pytest.raises((AssertionError, ff.FramefeedError)):
        test_a_scan_of_an_archive_is_that_of_the_unpacked_folder("pax", media, folder, tmp_path)


def test_a_source_that_compares_nothing_is_caught(
    media: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Part, "_compare_identity", lambda part, _: (part.path, part.offset))
    with pytest.raises((AssertionError, pytest.fail.Exception, ff.CorruptMedia)):
        test_an_archive_that_was_replaced_is_stale("other media", media, tmp_path)
