"""Every hard file has the property that it is named for, and a sequential decode reads what it promises."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file, expected_stamps
from tests.pathologies import iter_pathologies, pathology
from tests.pathologies.facts import MediaFacts, Pathology, find_missed_by_seeking, read_facts, verify

ALL = [pytest.param(recipe, id=f"{recipe.number}-{recipe.name}") for recipe in iter_pathologies()]


@cache
def facts_of(name: str) -> MediaFacts:
    return read_facts(corpus_file(name), pathology(name).stream_index)


@pytest.mark.parametrize("recipe", ALL)
def test_a_pathology_has_its_property(recipe: Pathology) -> None:
    verify(recipe, facts_of(recipe.name))


@pytest.mark.parametrize("recipe", ALL)
def test_same_recipe_same_bytes(recipe: Pathology, tmp_path: Path) -> None:
    recipe.write(tmp_path / recipe.name)
    assert (tmp_path / recipe.name).read_bytes() == corpus_file(recipe.name).read_bytes()


# What an encoder makes when it heeds no option: readable, orderly, and none of the hard cases but one.
HARMLESS = ClipSpec(num_frames=110, b_frames=None, codec_options={"x264-params": "bframes=9:b-adapt=0:scenecut=0"})
ORDINARY = {"base.mp4", "rotated_0.mp4"}


@pytest.mark.parametrize(
    "name",
    [recipe.name for recipe in iter_pathologies() if recipe.name.endswith(".mp4") and recipe.name not in ORDINARY],
)
def test_harmless_file_is_refused(name: str) -> None:
    with pytest.raises(AssertionError, match="lacks its property"):
        verify(pathology(name), read_facts(clip_file("harmless.mp4", HARMLESS)))


def test_wrong_frames_are_called_wrong() -> None:
    with pytest.raises(AssertionError, match="expected the frames"):
        verify(pathology("base.mp4"), read_facts(clip_file("shifted.mp4", ClipSpec(first_stamp=1))))


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(KeyError, match=r"open_gop\.mp4"):
        pathology("open_gop.webm")


def test_names_are_unique_and_no_number_is_missing() -> None:
    recipes = list(iter_pathologies())
    assert len({recipe.name for recipe in recipes}) == len(recipes)
    covered = {recipe.number for recipe in recipes}
    # M20 is about pipes: any of the files through one.
    expected = {f"M{number:02d}" for number in range(1, 25) if number != 20} | {
        "D01",
        "D02",
        "D03",
        "P01",
        "P04",
        "S04",
    }
    assert expected <= covered


def test_M01_header_promises_ten_times_the_frames() -> None:
    facts = facts_of("header_count.avi")
    assert (facts.num_frames_from_header, len(facts.frames)) == (1000, 100)


@pytest.mark.parametrize("name", ["vfr.mp4", "vfr.mkv"])
def test_M02_variable_rate_has_two_distances(name: str) -> None:
    facts = facts_of(name)
    assert len(facts.frames) == 100
    assert len(facts.gaps) == 2 < len(expected_stamps(name))


@pytest.mark.parametrize("count", range(9))
def test_M03_b_frames_run_as_long_as_named(count: int) -> None:
    assert facts_of(f"bframes_{count}.mp4").longest_b_run == count


def test_M03_silent_pyramid_does_not_declare_its_depth() -> None:
    assert facts_of("silent_pyramid.mp4").longest_b_run == 7


@pytest.mark.parametrize("name", ["open_gop.mp4", "open_gop.mkv", "open_gop.ts"])
@pytest.mark.parametrize("codec", ["", "_hevc"])
def test_M04_open_gop_has_leading_pictures(name: str, codec: str) -> None:
    assert facts_of(name.replace(".", f"{codec}.")).num_leading == 9


@pytest.mark.parametrize("name", ["open_gop_mpeg2.ts", "open_gop_mpeg2.mpg"])
def test_M04_open_gop_mpeg2_has_leading_pictures(name: str) -> None:
    assert facts_of(name).num_leading == 16


@pytest.mark.parametrize("name", ["open_gop.mp4", "open_gop_hevc.mp4"])
def test_M04_open_gop_plain_seeks_miss_the_leading_pictures(name: str) -> None:
    assert len(find_missed_by_seeking(facts_of(name))) == 9


def test_M05_times_start_late_or_are_missing() -> None:
    for name in ("start_8s.mp4", "start_8s.mkv"):
        facts = facts_of(name)
        assert facts.time_base is not None
        assert float(facts.frame_pts[0] * facts.time_base) == pytest.approx(8.333, abs=0.02)
    assert facts_of("negative_pts.mkv").frame_pts.count(None) == 10


def test_M06_edit_list_hides_thirteen_packets() -> None:
    facts = facts_of("edit_list.mp4")
    assert (len(facts.packets), len(facts.frames)) == (75, 62)
    assert sum(packet.is_discarded for packet in facts.packets) == 13
    assert facts.packets[0].is_discarded


def test_M06_edit_list_cuts_the_middle_out() -> None:
    assert len(facts_of("edit_list_twice.mp4").frames) == 50


def test_M07_times_are_missing_or_shuffled() -> None:
    assert facts_of("no_pts.avi").num_backward > 20
    for name in ("raw.h264", "raw.hevc"):
        assert set(facts_of(name).frame_pts) == {None}
    assert facts_of("sparse_pts.mpg").frame_pts.count(None) > 50


def test_M07_packed_b_frames_leave_empty_packets() -> None:
    facts = facts_of("packed_b_frames.avi")
    assert sum(packet.size < 10 for packet in facts.packets) == 24
    assert len(facts.frames) == len(facts.packets) == 50


def test_M08_ten_frames_share_a_time() -> None:
    facts = facts_of("duplicate_pts.mkv")
    assert len(facts.frames) == 50
    assert len(set(facts.frame_pts)) == 40


@pytest.mark.parametrize("name", ["closed_gop.ts", "closed_gop.m2ts", "closed_gop_mpeg2.ts", "closed_gop_mpeg2.mpg"])
def test_M09_plain_seeks_land_late(name: str) -> None:
    facts = facts_of(name)
    assert facts.num_leading == 0
    assert len(find_missed_by_seeking(facts)) > 50


def test_M10_times_wrap_once() -> None:
    facts = facts_of("wrap.ts")
    assert facts.frame_pts[0] < 0 < facts.frame_pts[-1]
    assert facts.num_backward == 0


def test_M11_packets_outnumber_frames() -> None:
    facts = facts_of("hidden_vp8.webm")
    assert (len(facts.packets), len(facts.frames)) == (106, 100)
    assert len({packet.pts for packet in facts.packets}) == 100


def test_M11_av1_shows_earlier_pictures_again() -> None:
    assert sum(packet.size <= 5 for packet in facts_of("temporal_units_av1.mp4").packets) > 10


@pytest.mark.parametrize("name", ["fields.mkv", "fields.mp4", "fields.ts"])
def test_M12_a_packet_is_a_field(name: str) -> None:
    facts = facts_of(name)
    assert (len(facts.packets), len(facts.frames)) == (62, 31)
    assert all(frame.is_interlaced for frame in facts.frames)


def test_M13_first_packets_lead_to_no_frame() -> None:
    facts = facts_of("mid_gop.ts")
    assert not facts.packets[0].is_key
    assert len(facts.packets) - len(facts.frames) > 10
    assert facts.stamps[0] == 50


@pytest.mark.parametrize("name", ["open_start.mp4", "open_start_hevc.mp4", "open_start_hevc.mkv"])
def test_M13_leading_pictures_of_an_open_start_are_dropped(name: str) -> None:
    facts = facts_of(name)
    assert facts.packets[0].is_key
    assert (len(facts.packets), len(facts.frames)) == (75, 72)


def test_M14_key_flags_lie() -> None:
    positions = {
        "no_key_flags.mkv": (),
        "all_key_flags.mp4": tuple(range(100)),
        "shifted_key_flags.mp4": (3, 28, 53, 78),
    }
    for name, keys in positions.items():
        assert facts_of(name).container_keys == keys
        assert facts_of(name).true_keys == (0, 25, 50, 75)


@pytest.mark.parametrize("name", ["intra_refresh.mp4", "intra_refresh.ts"])
def test_M14_refresh_points_are_flagged_as_keys(name: str) -> None:
    facts = facts_of(name)
    assert [position for position, packet in enumerate(facts.packets) if packet.is_key] == [0, 30, 60, 90]
    assert facts.true_keys == (0,)


def test_M15_long_gop_has_one_key_frame() -> None:
    facts = facts_of("long_gop.mp4")
    assert (len(facts.frames), sum(packet.is_key for packet in facts.packets)) == (500, 1)


def test_M16_one_frame_or_none() -> None:
    assert len(facts_of("one_frame.mp4").frames) == 1
    for name in ("zero_frames.mp4", "zero_frames.avi", "edit_list_all.mp4"):
        assert facts_of(name).time_base is not None
        assert not facts_of(name).frames


def test_M17_units_differ_from_frames() -> None:
    assert facts_of("ticks_90k.mp4").gaps == {3600}
    assert facts_of("ntsc.mkv").gaps == {33, 34}


def test_M18_the_right_stream_is_not_the_obvious_one() -> None:
    assert facts_of("two_videos.mp4").frames[0].height < read_facts(corpus_file("two_videos.mp4"), 1).frames[0].height
    assert facts_of("two_defaults.mkv").stamps == tuple(range(1000, 1100))
    assert read_facts(corpus_file("cover_first.mp4"), 0).is_attached_picture


def test_M19_sound_has_no_video_but_a_cover() -> None:
    assert facts_of("sound_only.m4a").time_base is None
    assert facts_of("sound_and_cover.m4a").is_attached_picture


def test_M21_index_is_missing_or_elsewhere() -> None:
    assert facts_of("fragmented.mp4").num_frames_from_header == 0
    assert len(facts_of("no_cues.mkv").container_keys) <= 1


def test_M22_some_times_are_swapped() -> None:
    facts = facts_of("shuffled_pts.mkv")
    assert facts.num_backward > 3
    assert facts.stamps == tuple(range(100))


def test_M23_time_restarts_once() -> None:
    assert facts_of("two_resets.ts").num_backward == 1


def test_M24_a_frame_lasts_1001_of_30000() -> None:
    facts = facts_of("ntsc.mp4")
    assert facts.time_base is not None
    assert {float(gap * facts.time_base) for gap in facts.gaps} == {1001 / 30000}


def test_D01_one_bit_makes_wrong_frames_and_no_error() -> None:
    facts = facts_of("flipped_bit.mp4")
    assert not facts.errors
    assert not any(frame.is_corrupt for frame in facts.frames)


def test_D02_truncated_files_lose_frames() -> None:
    for name in ("truncated.mp4", "truncated.mkv", "truncated.ts", "truncated.avi"):
        assert 0 < len(facts_of(name).frames) < 100
    assert facts_of("truncated.mp4").num_frames_from_header == 100


def test_D03_not_media() -> None:
    for name in ("no_moov.mp4", "empty.mp4", "text.mp4", "page.mp4"):
        assert facts_of(name).errors == ("InvalidDataError",)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_P01_frames_stand_upright_after_the_turn(rotation: int) -> None:
    for frame in facts_of(f"rotated_{rotation}.mp4").frames:
        assert frame.display_turn == frame.stamp_turn == (rotation, False)


def test_P04_size_or_format_changes_once() -> None:
    assert {frame.height for frame in facts_of("size_change.ts").frames} == {48, 96}
    assert {frame.pixel_format for frame in facts_of("chroma_change.mkv").frames} == {"yuvj422p", "yuvj420p"}


def test_S01_libav_follows_the_playlist() -> None:
    for name in ("playlist.mp4", "playlist.m3u8"):
        assert corpus_file(name).stat().st_size < 100
        assert len(facts_of(name).frames) == 100


def test_S04_small_files_make_large_claims() -> None:
    assert facts_of("billion_samples.mp4").num_frames_from_header == 10**9
    for name in ("bomb.png", "bomb.gif", "huge_frame.avi"):
        assert corpus_file(name).stat().st_size < 10_000
