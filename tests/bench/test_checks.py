import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.decode.suite import compare_resizing
from benchmarks.media import OwnStore, numbered_picture
from framefeed.bench._frames import NUM_FRAMES, OUR_METHOD, Reference, decode_clip, psnr, spread_ordinals
from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import Rounds, run_row
from framefeed.bench.baselines import Method, Peers, ReadFrames, load_module
from framefeed.bench.decode._workloads import DECODE, Workload, check_frames, workload_row
from framefeed.errors import MissingMedia

ORDINALS = list(range(3, 40, 4))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MediaStore:
    return OwnStore((), tmp_path_factory.mktemp("checks"), Rounds(), test_frames=64, repeats=2)


@pytest.fixture(scope="module")
def video(store: MediaStore) -> BenchVideo:
    return store.test_video


def test_our_frames_are_right(video: BenchVideo) -> None:
    frames = decode_clip(video, ORDINALS)
    assert Reference(video, ORDINALS).share_matching(frames, "NCHW") == 1.0
    assert Reference(video, ORDINALS).share_matching(frames.transpose(0, 2, 3, 1), "NHWC") == 1.0


@pytest.mark.parametrize("shift", [-4, -1, 1, 2, 10])
def test_other_frames_are_wrong(video: BenchVideo, shift: int) -> None:
    frames = decode_clip(video, [max(0, ordinal + shift) for ordinal in ORDINALS])
    assert Reference(video, ORDINALS).share_matching(frames, "NCHW") < 0.2


def test_another_colour_recipe_is_not_wrong(video: BenchVideo) -> None:
    frames = decode_clip(video, ORDINALS)
    paler = (frames * 0.97 + 3).astype(np.uint8)
    assert Reference(video, ORDINALS).share_matching(paler, "NCHW") == 1.0


def test_too_few_frames_are_wrong(video: BenchVideo) -> None:
    frames = decode_clip(video, ORDINALS)
    assert Reference(video, ORDINALS).share_matching(frames[:-1], "NCHW") == 0.0


def open_late(video: BenchVideo) -> ReadFrames:
    """Give the frames behind those that were asked for, at once."""
    return lambda ordinals: decode_clip(video, [min(ordinal + 1, len(video) - 1) for ordinal in ordinals])


SMALL = Workload("small", "small", lambda store: store.test_video, 1, 1)


def test_a_peer_that_gives_other_frames_is_shown_as_wrong_and_not_compared(store: MediaStore) -> None:
    methods = [Method("late exact", "NCHW", open_late), Method("good", "NCHW", OUR_METHOD.open)]
    row = run_row(workload_row(SMALL, store, methods, Rounds(2)), Rounds(2))
    wrong = {each["name"]: each["wrong"] for each in row["contenders"] if each["num_wrong"]}
    assert wrong.keys() == {"late exact"}
    assert "% of the frames are not the ones that were asked for" in wrong["late exact"][0]
    figures = [figure for comparison in row["comparisons"] for figure in comparison["figures"].values()]
    assert {figure["against"] for figure in figures} == {"good"}


@pytest.mark.parametrize("name", DECODE.peers)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_baselines_deliver_the_frames_or_say_why_not(name: str, video: BenchVideo) -> None:
    peers = Peers.find([name])
    if name in peers.missing:
        pytest.skip(peers.missing[name])
    assert all(re.match(r"\d", version) for version in peers.versions.values())
    for method in peers.list_all("METHODS"):
        assert check_frames(method, [Reference(video, ORDINALS)]) == [], method.name


def test_a_module_that_is_missing_gives_a_reason() -> None:
    peers = Peers.find(["nothing"])
    assert peers.missing["nothing"].startswith("ModuleNotFoundError")
    assert peers.list_all("METHODS") == []


def test_numbered_pictures_differ_and_show_white_on_blue() -> None:
    one, other = numbered_picture(1234, 720, 1280), numbered_picture(1235, 720, 1280)
    assert (one != other).any()
    assert {tuple(colour) for colour in one.reshape(-1, 3)[::97]} == {(0, 0, 255), (255, 255, 255)}


def test_clips_are_drawn_alike_from_any_files_and_fit(store: MediaStore, video: BenchVideo) -> None:
    small = replace(SMALL, stride=4, clips=5)
    one, many = (small.draw(files, 3) for files in ([video], store.copies(video, 12)))
    assert [[c.ordinals for c in row] for row in one] == [[c.ordinals for c in row] for row in many]
    assert len({clip.video.path for row in many for clip in row}) == 12
    assert all(len(c.ordinals) == NUM_FRAMES and c.ordinals[-1] < len(c.video) for row in one for c in row)


def test_without_the_media_the_trailer_is_missing(store: OwnStore) -> None:
    with pytest.raises(MissingMedia, match="FRAMEFEED_MEDIA"):
        assert store.trailer


def test_psnr_of_a_known_error() -> None:
    black = np.zeros((2, 2, 3), dtype=np.uint8)
    assert psnr(black, black) == float("inf")
    assert psnr(black + 255, black) == pytest.approx(0.0)
    assert psnr(black + 1, black) == pytest.approx(48.13, abs=0.01)


def test_resizing_is_compared_to_a_reference(video: BenchVideo) -> None:
    ordinals = spread_ordinals(len(video), 24)
    reference = load_module("benchmarks.peers.pillow").resize_frames(video, ordinals)
    pictures = decode_clip(video, ordinals)
    peer = replace(OUR_METHOD, name="torchcodec exact")
    both = compare_resizing("it", reference, {OUR_METHOD: pictures, peer: pictures + 1})
    assert both[0].figures[OUR_METHOD.name].value > 35
    assert both[1].figures["PSNR"].value > 0
    assert len(compare_resizing("it", reference, {OUR_METHOD: pictures})) == 1
    assert ordinals == sorted(set(ordinals))
    assert ordinals[-1] < len(video)
