"""Parts of other files as sources: the same facts and frames as of the file alone, and versions that are held to."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import framefeed as ff
from framefeed._names import PartName, make_absolute, resolve_name, split_part, to_stored_name
from framefeed._shown import show_name, strip_url
from framefeed.errors import CorruptMedia, MissingMedia, StaleSource, UnreadableMedia
from framefeed.media import MediaSource, Part
from tests.corpus import corpus_file
from tests.packed import pack
from tests.pictures.made import picture, saved

CLIPS = (
    "base.mp4", "open_gop.mp4", "edit_list.mp4", "closed_gop.ts", "hidden_vp8.webm", "full_range.avi",
    "base.mkv", "raw.h264",
)  # fmt: skip
PICTURE = saved(picture(), "JPEG")


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    members = {f"a/{name}": corpus_file(name).read_bytes() for name in CLIPS}
    path = tmp_path / "x.tar"
    path.write_bytes(pack([("readme.txt", b"no media"), *members.items(), ("a/p.jpg", PICTURE), ("b::c%.mp4", b"")]))
    return path


def name_part(path: Path, member: str) -> str:
    return PartName("tar", member, str(path)).text


@pytest.mark.parametrize("member", ["a/b.mp4", "a::b.mp4", "a%3Ab", "a:", ":::", "%", "caf\udce9.mp4", "", "::a"])
@pytest.mark.parametrize("container", ["/x/y.tar", "https://h/y.tar?a=b::c", "y:z.tar"])
def test_names_of_parts_are_split_as_they_were_joined(member: str, container: str) -> None:
    part = PartName("tar", member, container)
    assert split_part(part.text) == part


@pytest.mark.parametrize("name", ["/a/b.tar", "tar:/a::b", "https://h/x::y", "tar://a", "other://a::b", "tar://a::"])
def test_other_names_are_no_parts(name: str) -> None:
    assert split_part(name) is None


def test_the_container_of_a_part_is_stored_relative_to_the_root() -> None:
    name = "tar://a b.mp4::/data/shards/0.tar"
    stored = to_stored_name(name, "/data")
    assert stored == "tar://a b.mp4::shards/0.tar"
    assert resolve_name(stored, "/elsewhere") == "tar://a b.mp4::/elsewhere/shards/0.tar"
    assert make_absolute("tar://a::b.tar", "/c") == "tar://a::/c/b.tar"


def test_secrets_of_the_container_are_hidden_and_names_of_members_are_not() -> None:
    name = "tar://a?b@c#d.mp4::https://u:pass@h/x.tar?X-Amz-Signature=secret&v=1"
    assert show_name(name) == "tar://a?b@c#d.mp4::https://h/x.tar?..."
    assert strip_url(name) == "tar://a?b@c#d.mp4::https://h/x.tar?v=1"


@pytest.mark.parametrize("name", CLIPS)
def test_a_part_has_the_facts_and_frames_of_the_file(packed: Path, name: str) -> None:
    path, part = corpus_file(name), name_part(packed, f"a/{name}")
    assert ff.probe(part) == ff.probe(path)
    alone, inside = ff.build_index(path), ff.build_index(part)
    assert np.array_equal(alone.pts, inside.pts)
    assert alone.identity is not None
    assert inside.identity is not None
    assert alone.identity.fingerprint == inside.identity.fingerprint
    assert alone.identity.bytes == inside.identity.bytes
    with ff.VideoDecoder(path) as one, ff.VideoDecoder(part) as other:
        assert np.array_equal(one[:], other[:])
        numbers = [len(one) - 1, 0, len(one) // 2]
        assert np.array_equal(one.get_frames_at(numbers).data, other.get_frames_at(numbers).data)


def test_a_picture_in_an_archive_is_the_picture(packed: Path, tmp_path: Path) -> None:
    alone = tmp_path / "p.jpg"
    alone.write_bytes(PICTURE)
    part = name_part(packed, "a/p.jpg")
    assert ff.probe(part) == ff.probe(alone)
    assert np.array_equal(ff.VideoDecoder(part)[0], ff.VideoDecoder(alone)[0])


def test_requests_of_parts_and_files_are_delivered_together(packed: Path) -> None:
    path, part = corpus_file("base.mp4"), name_part(packed, "a/base.mp4")
    plan = ff.plan_requests([ff.DecodeRequest(source=source, indices=[3, 0]) for source in (str(path), part)])
    assert plan[1].source == part
    for kind in ("threads", "processes"):
        with ff.ClipLoader(plan, batch_size=2, workers=1, kind=kind) as loader:  # type: ignore[arg-type]
            (batch,) = loader
            assert np.array_equal(batch.data[0], batch.data[1])
            assert batch.sources == [str(path), part]


@pytest.mark.parametrize("member", ["none.mp4", "a", "A/base.mp4"])
def test_a_member_that_is_not_there(packed: Path, member: str) -> None:
    with pytest.raises(MissingMedia, match="has no member"):
        ff.probe(name_part(packed, member))


def test_a_container_that_is_not_there_or_none(tmp_path: Path) -> None:
    with pytest.raises(MissingMedia, match="no such file"):
        ff.probe(name_part(tmp_path / "none.tar", "a"))
    (tmp_path / "x.tar").write_bytes(b"text")
    with pytest.raises(UnreadableMedia, match="no tar archive"):
        ff.probe(name_part(tmp_path / "x.tar", "a"))


def test_an_archive_that_is_damaged_before_the_member(packed: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[1024 + 148 : 1024 + 154] = b"777777"  # the checksum of the second header
    packed.write_bytes(data)
    with pytest.raises(CorruptMedia, match=r"x\.tar"):
        ff.probe(name_part(packed, "a/base.mp4"))


def test_an_empty_member_is_said_to_be_empty(packed: Path) -> None:
    with pytest.raises(UnreadableMedia, match="empty"):
        ff.probe(name_part(packed, "b::c%.mp4"))


def test_D09_an_archive_that_was_written_again_is_accepted_if_the_member_is_the_same(packed: Path) -> None:
    part = MediaSource.of(name_part(packed, "a/base.mp4"))
    index = ff.build_index(part)
    before = part.check_identity(index.identity)
    os.utime(packed, ns=(1, 1))
    assert part.check_identity(index.identity) != before  # accepted under another key
    data = bytearray(packed.read_bytes())
    assert isinstance(part, Part)
    data[part.offset + part.size - 1] ^= 1
    packed.write_bytes(data)
    with pytest.raises(StaleSource, match="has changed"):
        part.check_identity(index.identity)
    packed.write_bytes(data[: part.offset + 100])
    with pytest.raises(StaleSource):
        part.check_identity(index.identity)


def test_a_part_cannot_be_read_beyond_its_end(packed: Path) -> None:
    part = MediaSource.of(name_part(packed, "readme.txt"))
    with part.opened() as reader:
        buffer = bytearray(600)
        assert reader.read_into(memoryview(buffer), 0) == 8
        assert bytes(buffer[:8]) == b"no media"
        assert reader.read_into(memoryview(buffer), 8) == 0
        assert reader.read_into(memoryview(buffer), 600) == 0
    assert part.head(3) == b"no "


@pytest.mark.parametrize("place", [(-1, 5), (0, -1)])
def test_a_damaged_place_is_refused(packed: Path, place: tuple[int, int]) -> None:
    with pytest.raises(UnreadableMedia, match="scan again"):
        Part(MediaSource.of(packed), *place, "tar://a::x.tar")


def test_parts_travel_to_other_processes(packed: Path) -> None:
    part = MediaSource.of(name_part(packed, "a/base.mp4"))
    again = pickle.loads(pickle.dumps(part))
    assert isinstance(again, Part)
    assert again.head(20) == part.head(20)
    assert again.fingerprint() == part.fingerprint()
