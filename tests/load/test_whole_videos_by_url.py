"""Clips of whole videos over HTTP and S3: the bytes of the files, few ranges, signed URLs, replaced objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

import framefeed as ff
from framefeed import vlm
from framefeed.parallel import release_idle
from framefeed.testing import ClipSpec, write_clip
from tests.media.nal_mutants import edit, h264
from tests.media.remote.buckets import options_of
from tests.media.remote.faults import RIGHT, Fault, FaultServer, Stored, faulty
from tests.media.remote.getting import forget, set_gap
from tests.media.remote.stores import Store

pytestmark = pytest.mark.usefixtures("kept_processes")

RULE = ff.WholeVideo(2, max_frames=6, multiple=2)
SIZE = ff.PixelBudget(28, max_total=28 * 28 * 40)
LONG = "long.mp4"
FRAMES_OF_LONG, GOP_OF_LONG = 300, 30
FILLER = b"\x0c" + b"\xff" * 20_000 + b"\x80"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of several lengths, sizes and containers, and one of 6 MB, of 10 groups of pictures."""
    folder = tmp_path_factory.mktemp("videos")
    pts = tuple(ordinal * 40 + ordinal % 5 * 7 for ordinal in range(70))
    uneven = ClipSpec(num_frames=70, gop=12, height=96, width=64, pts=pts, time_base=Fraction(1, 1000))
    write_clip(folder / "even.mp4", ClipSpec(num_frames=60, gop=12, height=64, width=96))
    write_clip(folder / "uneven.mkv", uneven)
    edit(h264(num_frames=FRAMES_OF_LONG), range(FRAMES_OF_LONG), lambda units: [*units, FILLER]).write(folder / LONG)
    return folder


def plan_whole_videos(catalog: ff.Catalog) -> ff.EpochPlan:
    return ff.plan_clips(catalog, RULE, seed=0, size=SIZE, filter="bicubic", unequal=True)


def load(plan: ff.EpochPlan, **options: Any) -> list[tuple[Any, ...]]:
    """What an epoch says of each clip, with its bytes."""
    with ff.ClipLoader(plan, batch_size=2, **{"workers": 0, **options}) as loader:
        return [
            (position, clip.shape, clip.tobytes(), seconds.tolist(), facts)
            for batch in loader
            for position, clip, seconds, facts in zip(
                batch.positions.tolist(), batch.data, batch.seconds, vlm.metadata(batch), strict=True
            )
        ]


@pytest.fixture(scope="module")
def near(folder: Path) -> ff.EpochPlan:
    return plan_whole_videos(ff.scan(folder, workers=0, progress=False))


@dataclass(frozen=True)
class Remote:
    """The files behind a server: their URLs and its options, and that of the long one with a signature."""

    urls: list[str]
    signed: str
    storage_options: dict[str, Any] | None = None

    @property
    def long(self) -> str:
        return next(url for url in self.urls if url.endswith(LONG))

    def scan(self) -> ff.Catalog:
        return ff.scan(self.urls, storage_options=self.storage_options, workers=0, progress=False)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[FaultServer]:
    with faulty({f"/{path.name}": path.read_bytes() for path in folder.iterdir()}) as server:
        yield server


@pytest.fixture(params=["http", "s3"])
def remote(request: pytest.FixtureRequest, folder: Path, server: FaultServer) -> Remote:
    names = sorted(path.name for path in folder.iterdir())
    if request.param == "http":
        return Remote([f"{server.url}/{name}" for name in names], f"{server.url}/{LONG}?X-Amz-Signature=Zq7Secret")
    store: Store = request.getfixturevalue("s3")
    client = store.boto3()
    client.create_bucket(Bucket="videos")
    for name in names:
        client.put_object(Bucket="videos", Key=name, Body=(folder / name).read_bytes())
    signed = client.generate_presigned_url("get_object", {"Bucket": "videos", "Key": LONG})
    return Remote([f"s3://videos/{name}" for name in names], signed, options_of(store))


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_batches_are_those_of_the_files(remote: Remote, near: ff.EpochPlan, kind: Any) -> None:
    plan = plan_whole_videos(remote.scan())
    assert plan.shapes() == near.shapes()
    assert len({shape[0] for shape in plan.shapes()}) > 1
    assert load(plan, workers=2, kind=kind) == load(near)


def test_only_the_ranges_that_are_needed_are_asked_for(
    remote: Remote, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_gap(monkeypatch, 2**16)
    catalog = ff.scan(remote.long, storage_options=remote.storage_options, workers=0, progress=False)
    plan = plan_whole_videos(catalog)
    release_idle()  # what the scan has read
    with ff.ClipLoader(plan, batch_size=1, workers=1) as loader:
        list(loader)
        stats = loader.stats()
    index = catalog.frame_index(0)
    wanted = plan[0].indices.tolist()
    assert wanted == [0, 50, 100, 150, 200, 250], "each is in a group of its own"
    packets = [int(index.frame_packet[number]) for number in wanted]
    needed = sum(int(index.packets.size[at // GOP_OF_LONG * GOP_OF_LONG : at + 1].sum()) for at in packets)
    assert stats.requests == len(wanted)
    # Pictures that are shown before one may be coded behind it.
    assert needed <= stats.bytes_fetched <= needed + 2 * len(wanted) * len(FILLER) < (folder / LONG).stat().st_size / 3


def test_a_text_is_read_by_a_presigned_url(remote: Remote, near: ff.EpochPlan) -> None:
    (expected,) = (ff.load_clip(clip) for clip in near if str(clip.source).endswith(LONG))
    planned = plan_whole_videos(ff.scan(remote.signed, workers=0, progress=False))[0]
    for clip in (planned, *(each for each in plan_whole_videos(remote.scan()) if each.source == remote.long)):
        text = clip.to_json()
        assert not any(word in text for word in ("?", "Zq7", "Signature", "sEcReT"))
        again = ff.PlannedClip.from_json(text, source=remote.signed)
        batch = ff.load_clip(again)
        np.testing.assert_array_equal(batch.data[0], expected.data[0])
        assert vlm.metadata(batch) == vlm.metadata(expected)
        assert "?" not in again.to_json()


@pytest.mark.filterwarnings("ignore:.* are read to index it")
def test_one_video_is_that_of_the_file(remote: Remote, folder: Path) -> None:
    load_video = partial(vlm.load_video, rule=RULE, size=SIZE)
    catalog = remote.scan()
    for url, video in (*zip(remote.urls, remote.urls, strict=True), *((str(entry.source), entry) for entry in catalog)):
        far = load_video(video, storage_options=remote.storage_options)
        local = load_video(folder / url.rpartition("/")[2])
        assert far.frames.tobytes() == local.frames.tobytes()
        assert (far.metadata, far.end_seconds) == (local.metadata, local.end_seconds)
        for name in ("indices", "seconds", "pts_seconds"):
            np.testing.assert_array_equal(getattr(far, name), getattr(local, name))
    assert load_video(remote.signed).frames.shape[0] == RULE.max_frames


def test_D09_a_replaced_object_is_stale(server: FaultServer, folder: Path) -> None:
    stored = server.objects[f"/{LONG}"]
    url = f"{server.url}/{LONG}?X-Amz-Signature=Zq7Secret"
    plan = plan_whole_videos(ff.scan(url, workers=0, progress=False))
    text = plan[0].to_json()
    other = Stored((folder / "even.mp4").read_bytes(), '"two"', "Thu, 22 Oct 2026 07:28:00 GMT")
    try:
        server.objects[f"/{LONG}"] = other
        forget()
        with ff.ClipLoader(plan, batch_size=1, workers=0) as loader, pytest.raises(ff.StaleSource) as of_loader:
            list(loader)
        with pytest.raises(ff.StaleSource, match="is another file than the one that was planned") as of_clip:
            ff.load_clip(ff.PlannedClip.from_json(text, source=url))
        assert "Zq7" not in f"{of_loader.value} {of_clip.value}"
    finally:
        server.objects[f"/{LONG}"] = stored
        forget()


def test_D09_an_object_replaced_while_a_video_is_loaded_never_mixes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_gap(monkeypatch, 2**16)
    load_video = partial(vlm.load_video, rule=RULE, size=SIZE)
    names = {load_video(folder / name).frames.tobytes(): name for name in (LONG, "even.mp4")}
    other = Stored((folder / "even.mp4").read_bytes(), '"two"', "Thu, 22 Oct 2026 07:28:00 GMT")
    replace = Fault(then=lambda server: server.objects.update({"/a.mp4": other}))
    found: list[str] = []
    while LONG not in found:  # until no request is left before which it is replaced
        with faulty({"/a.mp4": (folder / LONG).read_bytes()}) as server:
            url = server.plan("/a.mp4", *[RIGHT] * len(found), replace)
            try:
                found.append(names[load_video(url).frames.tobytes()])
            except ff.StaleSource:
                found.append("stale")
    assert found == ["even.mp4", *["stale"] * (len(found) - 2), LONG]
    assert len(found) > 6, "there is a request for each of the groups of pictures"
