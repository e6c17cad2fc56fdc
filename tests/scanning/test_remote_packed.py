"""Zip archives and Parquet files by URL: the facts and frames of the same files on disk, in few requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from framefeed.catalog import SurveyOptions
from framefeed.parallel import release_idle
from framefeed.scanning import ScanRequest, scan_roots
from tests.corpus import corpus_file
from tests.judges import assert_same_arrays
from tests.media.remote.faults import Fault, FaultServer, Stored, faulty
from tests.packed import Members, choose_videos, get_facts, pack, read_frames
from tests.scanning.test_packed_rows import CONTAINERS, PLAIN, replace_last, write, zip_media


@pytest.fixture
def server(media: Members, tmp_path: Path) -> Iterator[FaultServer]:
    columns = {"label": [Path(name).parent.name for name, _ in media]}
    paths = [
        zip_media(tmp_path / "m.zip", media),
        write(tmp_path / "plain.parquet", media, columns=columns, **PLAIN),
        write(tmp_path / "packed.parquet", media, columns=columns),
    ]
    with faulty({f"/{path.name}": path.read_bytes() for path in paths}) as server:
        yield server


@pytest.mark.parametrize("name", ["m.zip", "plain.parquet", "packed.parquet"])
def test_a_scan_by_url_is_that_of_the_unpacked_files(
    name: str, server: FaultServer, folder: Path, tmp_path: Path
) -> None:
    unpacked = ff.scan(folder, label_from="parent")
    options = {} if name.endswith("parquet") else {"label_from": "parent"}
    catalog = ff.scan(f"{server.url}/{name}?part=1", out=tmp_path / "c.parquet", **options)  # type: ignore[arg-type]
    assert get_facts(catalog).equals(get_facts(unpacked))
    assert_same_arrays(read_frames(ff.Catalog.open(tmp_path / "c.parquet")), read_frames(unpacked))


def test_parts_open_by_url(server: FaultServer, media: Members, folder: Path) -> None:
    name = choose_videos(media)[0][0]
    row = [each for each, _ in media].index(name)
    with ff.VideoDecoder(folder / name) as decoder:
        expected = decoder[3]
    for source in (f"zip://{name}::{server.url}/m.zip", f"parquet://video/{row}::{server.url}/plain.parquet",
                   f"parquet://video/{row}::{server.url}/packed.parquet"):  # fmt: skip
        with ff.VideoDecoder(source) as decoder:
            np.testing.assert_array_equal(decoder[3], expected)


@pytest.mark.parametrize(
    "fault", [Fault(headers={"Content-Range": "bytes 0-9/10"}), Fault(headers={"Content-Range": None}), Fault(403)]
)
@pytest.mark.parametrize("name", ["plain.parquet", "packed.parquet"])
def test_a_file_that_is_not_read_by_ranges_is_not_read_as_a_list(name: str, fault: Fault, server: FaultServer) -> None:
    server.plan(f"/{name}", *[fault] * 9)
    with pytest.raises(ff.UnreadableMedia, match=rf"/{name}: .*the server answered") as caught:
        ff.scan(f"{server.url}/{name}")
    assert "ftyp" not in str(caught.value)
    assert None not in server.ranges  # Nothing is asked for as a whole.


@pytest.mark.parametrize(("num_groups", "most_reads"), [(1, 1), (3, 2)])
def test_compressed_values_take_requests_by_row_groups_and_not_by_rows(
    num_groups: int, most_reads: int, server: FaultServer, tmp_path: Path
) -> None:
    video, rng = corpus_file("base.mp4").read_bytes(), np.random.default_rng(0)
    values = [(f"{row}.mp4", video + rng.bytes(20_000)) for row in range(24)]
    path = write(tmp_path / "v.parquet", values, columns={"take": list(range(24))}, row_group_size=24 // num_groups)
    data = path.read_bytes()
    server.objects["/v.parquet"] = Stored(data)
    catalog = ff.scan(f"{server.url}/v.parquet")
    assert not len(catalog.errors)
    asked = [each.range for each in server.asked if each.range is not None]
    # Opened to see what it is, to find the values, and for the groups of each thread's rows.
    opened = asked.count((0, 2**16))
    assert opened <= 2 + 24 // 8 + num_groups
    assert asked.count((len(data) - 2**16, len(data))) == 1  # The metadata.
    nbytes = sum(min(stop, len(data)) - start for start, stop in asked) - opened * 2**16
    assert nbytes <= most_reads * len(data) + 2**16
    assert len(asked) <= opened + 1 + 4 * num_groups * most_reads


def test_bytes_of_headers_are_counted(media: Members, tmp_path: Path) -> None:
    (tmp_path / "m.tar").write_bytes(pack(media))
    (tmp_path / "list.txt").write_text("\n".join(f"tar://{name}::m.tar" for name, data in media if data))
    for root in ("m.tar", "list.txt"):
        request = ScanRequest(SurveyOptions(depth="header"), out=tmp_path / f"{root}.parquet")
        scanned, again = (scan_roots([tmp_path / root], request).stats for _ in range(2))
        assert (again.surveyed, again.known) == (0, scanned.surveyed)
        assert 512 * len(media) <= again.bytes_read < scanned.bytes_read


def test_what_arrow_reads_by_url_is_counted(server: FaultServer) -> None:
    catalog = ff.scan(f"{server.url}/packed.parquet")
    row = next(row for row in catalog.usable_rows.tolist() if catalog[row].info.kind == "video")  # type: ignore[union-attr]
    plan = ff.plan_clips(catalog.take([row]), ff.Dense(2), seed=1)
    before = len(server.asked)
    with ff.ClipLoader(plan, batch_size=1, workers=1) as loader:
        list(loader)
        stats = loader.stats()
    assert stats.requests == len(server.asked) - before
    asked = [each.range for each in server.asked[before:]]
    size = len(server.objects["/packed.parquet"].data)
    assert stats.bytes_fetched == sum(min(stop, size) - start for start, stop in filter(None, asked))


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("etags", [('"one"', '"two"'), (None, None)])
def test_D09_media_that_a_replaced_object_has_no_more_are_stale(
    name: str, etags: tuple[str | None, str | None], server: FaultServer, media: Members, tmp_path: Path
) -> None:
    videos = choose_videos(media)[:2]
    data = CONTAINERS[name](tmp_path / name, videos).read_bytes()
    for change, other in replace_last(name, data, videos, tmp_path).items():
        server.objects[f"/{name}"] = Stored(data, etags[0], None)
        catalog = ff.scan(f"{server.url}/{name}")
        release_idle()
        server.objects[f"/{name}"] = Stored(other, etags[1], None)
        with ff.VideoDecoder(catalog[-1]) as decoder, pytest.raises(ff.StaleSource, match=name):
            print(f"{change}: {decoder[0]}")


@pytest.mark.parametrize(
    ("etags", "error"),
    [
        (('"one"', '"two"'), ff.StaleSource),
        (('W/"one"', 'W/"two"'), ff.StaleSource),
        ((None, None), ff.LimitExceeded),  # Where a server names no version, none is compared.
    ],
)
def test_D09_the_version_of_an_object_is_compared_before_limits(
    etags: tuple[str | None, str | None],
    error: type[ff.MediaError],
    server: FaultServer,
    media: Members,
    tmp_path: Path,
) -> None:
    videos = choose_videos(media)[:2]
    limits = ff.Limits(max_row_group_bytes=sum(len(data) for _, data in videos) + 10_000)
    server.objects["/m.parquet"] = Stored(write(tmp_path / "m", videos).read_bytes(), etags[0], None)
    catalog = ff.scan(f"{server.url}/m.parquet")
    with ff.VideoDecoder(catalog[0]) as decoder:
        before = np.asarray(decoder[0].data)
    # The row group is in memory.
    small = ff.Limits(max_row_group_bytes=1000)
    with ff.VideoDecoder(catalog[0], limits=small) as decoder, pytest.raises(ff.LimitExceeded, match="bytes=1000"):
        decoder[0]
    with ff.VideoDecoder(catalog[0], limits=limits) as decoder:
        np.testing.assert_array_equal(np.asarray(decoder[0].data), before)
    release_idle()
    server.objects["/m.parquet"] = Stored(
        write(tmp_path / "m", [*videos, ("more", bytes(50_000))]).read_bytes(), etags[1], None
    )
    with ff.VideoDecoder(catalog[-1], limits=limits) as decoder, pytest.raises(error):
        decoder[0]


def test_D09_metadata_of_an_object_that_names_no_version_are_read_anew(
    server: FaultServer, media: Members, tmp_path: Path
) -> None:
    names = ["first", "other"]
    objects = [write(tmp_path / name, media[:1], columns={name: [7]}).read_bytes() for name in names]
    assert len(objects[0]) == len(objects[1])
    for name, data in zip(names, objects, strict=True):
        server.objects["/m.parquet"] = Stored(data, None, None)
        assert ff.scan(f"{server.url}/m.parquet").table.column_names[-1] == name


@pytest.mark.parametrize("kept", [{"row_group_size": 1}, PLAIN])
def test_D09_the_same_media_in_another_layout_by_url_are_read_on(
    kept: dict[str, object], server: FaultServer, media: Members, tmp_path: Path
) -> None:
    videos = choose_videos(media)[:2]
    server.objects["/m.parquet"] = Stored(write(tmp_path / "m", videos).read_bytes())
    catalog = ff.scan(f"{server.url}/m.parquet")
    before = read_frames(catalog)
    server.objects["/m.parquet"] = Stored(write(tmp_path / "m", videos, **kept).read_bytes(), '"two"')
    release_idle()
    assert_same_arrays(read_frames(catalog), before)
