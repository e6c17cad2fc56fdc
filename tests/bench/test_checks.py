import numpy as np
import pytest

from framefeed.bench._media import BenchVideo, MediaStore, numbered_picture
from framefeed.bench._ours import OUR_METHOD, decode_clips
from framefeed.bench._peer import Method
from framefeed.bench._psnr import compare_resizing, psnr, spread_ordinals
from framefeed.bench._rules import BenchClip, all_ordinals
from framefeed.bench._workloads import NUM_FRAMES, WORKLOADS
from framefeed.bench.baselines import NAMES, load_baseline, load_module
from framefeed.bench.decode._comparing import Reference, check_methods, find_field
from framefeed.errors import MissingMedia

ORDINALS = list(range(3, 40, 4))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MediaStore:
    return MediaStore(None, tmp_path_factory.mktemp("checks"), test_frames=64, repeats=2)


@pytest.fixture(scope="module")
def video(store: MediaStore) -> BenchVideo:
    return store.test_video


def test_our_frames_are_right(video: BenchVideo) -> None:
    frames = decode_clips(video, [ORDINALS])[0][0]
    assert Reference(video, ORDINALS).share_matching(frames, "NCHW") == 1.0
    assert Reference(video, ORDINALS).share_matching(frames.transpose(0, 2, 3, 1), "NHWC") == 1.0


@pytest.mark.parametrize("shift", [-4, -1, 1, 2, 10])
def test_other_frames_are_wrong(video: BenchVideo, shift: int) -> None:
    frames = decode_clips(video, [[max(0, ordinal + shift) for ordinal in ORDINALS]])[0][0]
    assert Reference(video, ORDINALS).share_matching(frames, "NCHW") < 0.2


def test_another_colour_recipe_is_not_wrong(video: BenchVideo) -> None:
    frames = decode_clips(video, [ORDINALS])[0][0]
    paler = (frames * 0.97 + 3).astype(np.uint8)
    assert Reference(video, ORDINALS).share_matching(paler, "NCHW") == 1.0


def test_too_few_frames_are_wrong(video: BenchVideo) -> None:
    frames = decode_clips(video, [ORDINALS])[0][0]
    assert Reference(video, ORDINALS).share_matching(frames[:-1], "NCHW") == 0.0


class _Failing:
    def __init__(self, video: BenchVideo) -> None:
        raise RuntimeError("cannot open")


def test_a_peer_that_fails_is_named_and_left_out(video: BenchVideo) -> None:
    checked = check_methods([Method("broken", "NHWC", _Failing)], [(BenchClip(video, ORDINALS), ORDINALS)])
    assert checked.shares == {OUR_METHOD.name: 1.0}
    assert checked.failed == {"broken": "RuntimeError: cannot open"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_baselines_deliver_the_frames_or_say_why_not(name: str, video: BenchVideo) -> None:
    baseline = load_baseline(name)
    if isinstance(baseline, str):
        pytest.skip(baseline)
    checked = check_methods(baseline.methods(), [(BenchClip(video, ORDINALS), ORDINALS)])
    assert checked.failed == {}
    assert set(checked.shares.values()) == {1.0}
    assert all(baseline.versions().values())


def test_a_missing_module_gives_a_reason() -> None:
    assert load_module("nobody").startswith("ModuleNotFoundError")
    assert find_field(["nobody"]).missing.keys() == {"nobody"}


def test_numbered_pictures_differ_and_show_white_on_blue() -> None:
    one, other = numbered_picture(1234, 720, 1280), numbered_picture(1235, 720, 1280)
    assert (one != other).any()
    assert {tuple(colour) for colour in one.reshape(-1, 3)[::97]} == {(0, 0, 255), (255, 255, 255)}


def test_clips_are_drawn_alike_for_all_rules_and_fit(store: MediaStore) -> None:
    workload = WORKLOADS["gop12-2"]
    small = type(workload)("test", "test", lambda store: store.test_video, 4, 5)
    one, many = (small.batches(store, 3, rule) for rule in ("one file", "many files"))
    assert [[c.ordinals for c in row] for row in one] == [[c.ordinals for c in row] for row in many]
    assert len({clip.video.path for row in many for clip in row}) == 12
    assert all(len(c.ordinals) == NUM_FRAMES and c.ordinals[-1] < len(c.video) for row in one for c in row)
    assert all_ordinals(one[0]) == sorted({ordinal for clip in one[0] for ordinal in clip.ordinals})


def test_without_the_media_the_trailer_is_missing(store: MediaStore) -> None:
    with pytest.raises(MissingMedia, match="FRAMEFEED_MEDIA"):
        assert store.trailer


def test_psnr_of_a_known_error() -> None:
    black = np.zeros((2, 2, 3), dtype=np.uint8)
    assert psnr(black, black) == float("inf")
    assert psnr(black + 255, black) == pytest.approx(0.0)
    assert psnr(black + 1, black) == pytest.approx(48.13, abs=0.01)


def test_resizing_is_compared_to_a_reference(video: BenchVideo) -> None:
    pillow = load_module("pillow")
    ordinals = spread_ordinals(len(video))
    resizing = compare_resizing(video, [], pillow.resized_by_pillow(video, ordinals))
    assert resizing["psnr_db"][OUR_METHOD.name] > 35
    assert resizing["above_torchcodec_db"] is None
    assert ordinals == sorted(set(ordinals))
    assert ordinals[-1] < len(video)
