"""Texts of planned clips: read back they are the clips, and whatever else is given is refused by its key."""

from __future__ import annotations

import json
import pickle
import platform
import tracemalloc
from dataclasses import dataclass, replace
from fractions import Fraction
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed as ff
from framefeed.errors import UsageError
from framefeed.media import SourceIdentity
from framefeed.plan import Take, iterate_takes, plan_requests
from framefeed.plan._clip_text import _read_column, _write
from framefeed.testing import ClipSpec, clip_bytes, make_lerobot
from tests.damaged import damaged_clip
from tests.fakes import FakeCatalog, index_of
from tests.load.stream_media import plan_both
from tests.makers import catalog, plan_of, plan_over
from tests.plan.timelines import indexes

RULES = (
    ff.Uniform(5),
    ff.Dense(4, stride=3),
    ff.Dense(4, fps=7.3, start=0.1),
    ff.RandomSegments(4),
    ff.Rates([(4, 3), (7.5, 5)], policy="wrap"),
    ff.AtIndices([29, 0, -1, 0]),
    ff.AtSeconds([0.3, 0.1, 99.0], pick="nearest"),
    ff.EveryFrame(),
)


@dataclass
class NamedCatalog(FakeCatalog):
    """A catalog whose sources have one name."""

    name: str = "s3://a-bucket/with/folders/of/many/videos/video_0000123456.mp4"

    def source(self, row: int) -> str:
        return self.name


def assert_travels(clip: ff.PlannedClip) -> None:
    """Check that the clip is the same after a text and a pickle, in what equality leaves out too."""
    text = clip.to_json()
    assert text.isascii()
    for made in (ff.PlannedClip.from_json(text, strict=True), pickle.loads(pickle.dumps(clip))):
        again = pickle.loads(pickle.dumps(made))
        for each in (made, again):
            assert each == clip
            assert hash(each) == hash(clip)
            assert each.to_json() == text
            assert (each.position, each.row, each.line) == (clip.position, clip.row, clip.line)
            assert list(each.parts) == list(clip.parts)
            for one, other in zip(iterate_takes(each), iterate_takes(clip), strict=True):
                assert_same(one, other)


def assert_same(one: Take, other: Take) -> None:
    assert one.seconds.tobytes() == other.seconds.tobytes()
    assert one.displayed == other.displayed
    assert one.end_seconds == other.end_seconds or np.isnan([one.end_seconds, other.end_seconds]).all()
    assert one.facts.pts.tobytes() == other.facts.pts.tobytes()
    assert one.facts[1:] == other.facts[1:]
    for array in (one.indices, one.pts_seconds, one.seconds, one.valid, one.facts.pts):
        assert not array.flags.writeable


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.filterwarnings("ignore:.* shorter than this rule", "ignore:.* past the end")
def test_clips_of_every_rule_travel(rule: Any) -> None:
    plan = plan_over(catalog(), rule, size=ff.Letterbox(40, 40, fill=(1, 2, 3)), horizontal_flip=0.5)
    for clip in plan[:12]:
        assert_travels(clip)
    assert_travels(plan_over(catalog(), rule, crop=ff.RandomCrop(16, 20), size=(8, 8))[0])


@given(indexes(), st.data())
def test_clips_of_any_timeline_travel(index: ff.FrameIndex, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(index) - 1), min_size=1, max_size=20))
    assert_travels(plan_over(FakeCatalog([index]), ff.AtIndices(indices))[0])
    if index.has_timestamps:
        assert_travels(plan_over(FakeCatalog([index]), ff.Dense(7, fps=3.3))[0])


def test_streams_mixtures_and_requests_travel() -> None:
    both = plan_both()
    mixed = ff.mix_plans([(both, 1.0), (plan_both(seed=8), 2.0)], num_clips=6, seed=1)
    requests = plan_requests([ff.DecodeRequest(catalog().source(0), seconds=[0.0, 0.1], segment=[3, -5])])
    for plan in (both, mixed, requests):
        for clip in plan:
            assert_travels(clip)
    names = plan_requests([{"\udce9 \"'": both[0]["slow"], "b": both[0]["slow"]}])
    assert_travels(names[0])


def test_pictures_and_sequences_travel(tmp_path: Path) -> None:
    from PIL import Image

    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path in paths:
        Image.new("RGB", (32, 24)).save(path)
    sequences = [
        ff.ImageSequence(tmp_path, fps=29.97),
        ff.ImageSequence(paths, fps=Fraction(30000, 1001)),
        ff.ImageSequence(paths[::-1], timestamps=[-0.1, 0.3, 1e9]),
    ]
    sources = [*paths, *sequences]
    for clip in plan_requests([ff.DecodeRequest(each, indices=[0]) for each in sources]):
        assert_travels(clip)
    for depth in ("header", "frames"):
        assert_travels(plan_over(ff.scan(tmp_path, depth=depth, workers=0), ff.Uniform(2))[0])


@pytest.mark.filterwarnings("ignore:.* damaged frames in .* may be in clips")
def test_damaged_frames_travel() -> None:
    scanned = ff.scan(damaged_clip("damage.mp4", (12, 13, 14)), verify="full", workers=0)
    for on_damaged in ("skip", "deliver", "error"):
        plan = plan_over(scanned, ff.AtIndices([11, 12, 14]), on_damaged=on_damaged)
        assert plan[0].damaged is not None
        assert_travels(plan[0])


@pytest.mark.parametrize("cameras", [("images.top",), ()])
def test_cameras_and_pictures_in_tables_travel(tmp_path: Path, cameras: tuple[str, ...]) -> None:
    folder = make_lerobot(tmp_path / "set", cameras=cameras, image_keys=() if cameras else ("images.top",))
    assert_travels(ff.lerobot.open(folder).plan({"images.top": [-0.1, 0.0]}, seed=0)[3])


def test_bytes_are_refused() -> None:
    media = clip_bytes(ClipSpec(num_frames=3), "mp4")
    clip = plan_requests([ff.DecodeRequest(media, indices=[0])])[0]
    with pytest.raises(UsageError, match="a source is bytes in memory: store them as a file"):
        clip.to_json()


# --- size ---------------------------------------------------------------------------------------------


def test_64_uneven_frames_take_4_kb() -> None:
    rng = np.random.default_rng(0)
    pts = np.cumsum(rng.integers(1000, 9000, 200_000))
    identity = SourceIdentity(10**9, 0, "1e49c2149b6a3c5777b448a6572c9483")
    index = replace(index_of(pts.tolist(), time_base=Fraction(1, 90_000)), identity=identity)
    times = np.sort(rng.uniform(0, pts[-1] / 90_000 - 1, 64))
    rules = (ff.AtSeconds(times.tolist()), ff.RandomSegments(64), ff.AtIndices(rng.integers(0, 199_999, 64).tolist()))
    for rule in rules:
        clip = plan_over(NamedCatalog([index]), rule, size=(224, 224))[0]
        assert_travels(clip)
        assert len(clip.to_json()) <= 4096, rule
    assert len(plan_of(ff.Uniform(16))[0].to_json()) < 800


def test_pickles_have_no_index() -> None:
    clip = plan_of(ff.Uniform(16))[0]
    index = catalog().frame_index(clip.row)
    assert len(pickle.dumps(clip)) < 1600 < len(pickle.dumps(index))
    assert b"FrameIndex" not in pickle.dumps(clip)


def test_a_text_has_as_many_frames_as_a_clip() -> None:
    index = index_of(list(range(10)))
    plan = plan_over(FakeCatalog([index]), ff.AtIndices([3] * 100_000))
    assert len(plan[0].to_json()) < 2000
    assert_travels(plan[0])
    take = plan[0].parts[""]
    with pytest.raises(UsageError, match="at most 100,000 frames, of all streams together"):
        ff.PlannedClip(0, 0, 0, {"a": take, "b": take}).to_json()
    given = json.loads(plan[0].to_json())
    given["parts"] = {"a": given["parts"][""] * 2}
    with pytest.raises(UsageError, match="parts: a text has at most 100,000 frames"):
        ff.PlannedClip.from_json(json.dumps(given))


def test_a_text_of_this_format_stays_what_it_is() -> None:
    """Texts are kept: what is written otherwise has another number of its format."""
    index = index_of([100, 356, 612, 877, 1124, 1380], time_base=Fraction(1, 1024), duration=256)
    source = NamedCatalog([index], name="/videos/a.mp4")
    clip = plan_over(source, ff.AtSeconds([0.0, 0.375, 0.4375, 0.25, 9.0]), size=ff.Letterbox(8), shuffle=False)[0]
    given = json.loads(clip.to_json())
    del given["versions"]
    assert given == {
        "framefeed_clip": 1, "position": 0, "row": 0, "line": 0,
        "parts": {"": [{
            "source": "/videos/a.mp4", "bytes": None, "fingerprint": None, "time_base": [1, 1024],
            "indices": [0, 1, [0, 3]], "pts": [100, 256, [0, 3]], "segment": [[0, 5]],
            "seconds": [0.0, 0.375, 0.4375, 0.25, 9.0], "end_seconds": 0.5,
            "pick_error_seconds": [0.0, -0.125, -0.1875, 0.0, None], "valid": [[True, 4], False],
            "damaged": None, "on_damaged": "error", "flipped": False,
            "output": {"size": [6, 8], "still_quality": "scaled"},
            "placement": {"size": [8, 8], "box": [1, 0, 6, 8], "fill": [0, 0, 0]}, "displayed": [48, 64],
        }]},
    }  # fmt: skip


def test_runs_are_of_values_that_are_the_same_in_all_bits() -> None:
    for values in ([0.0, -0.0, 0.0], [-0.0] * 3, [nan, 0.0, nan], [0.5, 0.5], [0.5] * 3 + [1.0]):
        column = np.array(values, np.float64)
        assert _read_column(np.float64, _write(column)).tobytes() == column.tobytes()


# --- other texts --------------------------------------------------------------------------------------

NOT_TEXTS: dict[str, tuple[Any, str]] = {
    "no text": (b"{}", "text: expected the text of a clip"),
    "nothing": ("", "text: cannot be read as JSON"),
    "no JSON": ("frame 3", "text: cannot be read as JSON"),
    "other JSON": ('{"frames": [{"pts": 0}]}', "framefeed_clip: expected 1"),
    "a list": ("[]", "framefeed_clip: expected 1"),
    "deep": ("[" * 5_000_000 + "]" * 5_000_000, "text: cannot be read as JSON"),
    "deep in a value": ('{"framefeed_clip": ' + "[" * 900 + "]" * 900 + "}", "framefeed_clip: expected 1"),
    "long": ("[" + "1," * 5_000_000 + "1]", "framefeed_clip: expected 1"),
    "digits": ("9" * 5000, "text: cannot be read as JSON"),
    "another format": ('{"framefeed_clip": 2}', "framefeed_clip: expected 1"),
    "true": ('{"framefeed_clip": true}', "framefeed_clip: expected 1"),
    "NaN": ('{"framefeed_clip": NaN}', "framefeed_clip: expected 1"),
    "missing": ('{"framefeed_clip": 1}', "versions: is not what"),
}


@pytest.mark.parametrize("name", NOT_TEXTS)
def test_what_is_no_text_of_a_clip_is_refused(name: str) -> None:
    text, message = NOT_TEXTS[name]
    with pytest.raises(UsageError, match=message) as caught:
        ff.PlannedClip.from_json(text)
    assert len(str(caught.value)) < 500


BIG = 2**63
INF, NAN = float("inf"), float("nan")
DEEP = json.loads("[" * 900 + "]" * 900)
EDITS: dict[str, tuple[Any, ...]] = {
    "source": (None, 3, ["a"], {}, {"folder": "/a", "paths": None, "fps": None, "timestamps": None},
               {"folder": "/a", "paths": ["/a"], "fps": [25, 1], "timestamps": None},
               {"folder": None, "paths": ["/a"], "fps": [25, 0], "timestamps": None},
               {"folder": None, "paths": ["/a"], "fps": [10**4000, 1], "timestamps": None},
               {"folder": None, "paths": ["/a", 3], "fps": [25, 1], "timestamps": None},
               {"folder": None, "paths": ["/a"], "fps": None, "timestamps": ["0"]},
               {"folder": None, "paths": ["a"], "fps": [25, 1], "timestamps": None},
               "https://user:password@host/a.mp4", "https://host/a.mp4?sig=Zq7Secret"),
    "bytes": (-1, 1.5, "3", BIG, True),
    "fingerprint": (3, [], DEEP),
    "time_base": (None, [1], [1, 0], [0, 1], [1, -3], [2, 4], [1.0, 25], [1, BIG], ["1", "25"], [True, 25], "1/25"),
    "indices": (None, [], [-1], [0, 1, 2, -5], [1.0, 1, 1, 1], [None, 1, 1, 1], [[1, 4, 1]],
                [BIG] * 4, [[1, 1e9]], [[1, 10**12]], [[1, -1], 1, 1, 1], [True, 1, 1, 1], ["1"] * 4, {"0": 1}, "1111",
                DEEP, 10**4000),
    "pts": (None, [0, 1, 2], [0, 1, 2, 3, 4], [0.5, 1, 2, 3], [BIG, 0, 0, 0], [0, {}, 0, 0], [0, "1", 0, 0]),
    "seconds": ([0.0], [0, 1, 2, 3], ["0.0"] * 4, [INF] * 4, [-INF] * 4, [NAN] * 4, [[0.0, 5]], [DEEP, 0.0, 0.0, 0.0]),
    "end_seconds": ("1", 3, [1.0], INF, NAN, True, 10**400),
    "pick_error_seconds": (None, [[0.0, 3]], [[0, 4]], [[True, 4]], [[0.0, 10**12]], [[0.0, 2], 0.0, 0.0]),
    "valid": (None, [[1, 4]], [[True, 3]], [["true", 4]], [[None, 4]], [True, True, True, {}]),
    "segment": (None, [[0, 3]], [[0.0, 4]], [[False, 4]]),
    "damaged": ([[True, 3]], [[1, 4]], True),
    "on_damaged": (None, "ignore", ["skip"], DEEP),
    "flipped": (None, 0, "true"),
    "output": (None, [], {"size": [0, 3]}, {"size": 3}, {"size": "ab"}, {"size": DEEP}, {"crop": [1, 2, 3]},
               {"colour": 1}, {"dimension_order": "NHWC"}, {"still_quality": "exact"}, {"size": [10**9, 3]},
               {"size": [True, 3]}),
    "placement": (3, {}, {"size": [40, 40], "box": [0, 0, 41, 40], "fill": [0, 0, 0]},
                  {"size": [40, 40], "box": [5, 0, 30, 40], "fill": [0, 0, 256]},
                  {"size": [40, 40], "box": [5, 0, 30, 40], "fill": [0, 0]},
                  {"size": [40, 40], "box": [5, 0, 29, 40], "fill": [0, 0, 0]},
                  {"size": [40, 40], "box": [-1, 0, 30, 40], "fill": [0, 0, 0]},
                  {"size": [40.0, 40], "box": [5, 0, 30, 40], "fill": [0, 0, 0]},
                  {"size": [40, 40], "box": [5, 0, 30, 40], "fill": [0, 0, 0], "more": 1}),
    "displayed": (None, [48], [48, 64, 3], [48.0, 64], ["48", 64], [BIG, 1]),
}  # fmt: skip


def get_text(**values: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(plan_of(ff.Uniform(4), size=ff.Letterbox(40, 40))[0].to_json())
    made["parts"][""][0].update(values)
    return made


@pytest.mark.parametrize("key", EDITS)
def test_an_edited_take_is_refused_by_its_key(key: str) -> None:
    assert get_text()["parts"][""][0].keys() == EDITS.keys()
    for value in EDITS[key]:
        edited = json.dumps(get_text(**{key: value}))
        with pytest.raises(UsageError, match=rf"^parts\[''\]\[0\]\.{key}: is not what .*: make it again") as caught:
            ff.PlannedClip.from_json(edited)
        assert "Zq7Secret" not in str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("parts", (None, [], {}, {"": []}, {"": {}}, {"": [{}]}, {"": [3]}, "text")),
        ("versions", (None, {}, [], "1", {"framefeed": "0"})),
        ("row", (None, -1, "0", 1.0, BIG, True, NAN)),
        ("line", (None, -1)),
        ("position", (None, -1)),
    ],
)
def test_an_edited_clip_is_refused_by_its_key(key: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(UsageError, match=f"^{key}"):
            ff.PlannedClip.from_json(json.dumps({**get_text(), key: value}))
    edited = get_text()
    edited["parts"]["other"] = edited["parts"][""]
    with pytest.raises(UsageError, match=r"^parts: is not what"):
        ff.PlannedClip.from_json(json.dumps(edited))


def test_a_column_of_many_long_runs_is_not_made() -> None:
    edited = json.dumps(get_text(pick_error_seconds=[[0.0, 100_000]] * 40))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"pick_error_seconds: is not what"):
            ff.PlannedClip.from_json(edited)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_columns_have_one_length() -> None:
    with pytest.raises(UsageError, match=r"\.pts: is not what"):
        ff.PlannedClip.from_json(json.dumps(get_text(indices=[0, 1])))


def test_unknown_and_missing_keys_are_refused() -> None:
    for change in ("gamma", "pts"):
        edited = get_text()
        take = edited["parts"][""][0]
        if take.pop(change, None) is None:
            take[change] = None
        with pytest.raises(UsageError, match=rf"\.{change}: is not what clip.to_json\(\) writes"):
            ff.PlannedClip.from_json(json.dumps(edited))
    with pytest.raises(UsageError, match=r"^more: is not what"):
        ff.PlannedClip.from_json(json.dumps({**get_text(), "more": 1}))


@given(st.data())
def test_any_edit_is_refused_or_is_another_text_of_a_clip(data: st.DataObject) -> None:
    """Whatever is read is written again as it was given."""
    text = plan_of(ff.Rates([(4, 3)]), size=ff.Letterbox(40, 40))[0].to_json()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 12)))
    edited = text[:start] + data.draw(st.text('0123456789.,:-e[]{}"truefalsnl ', max_size=12)) + text[stop:]
    try:
        made = ff.PlannedClip.from_json(edited)
    except UsageError:
        return
    given, written = json.loads(edited), json.loads(made.to_json())
    given.pop("versions"), written.pop("versions")
    assert given == written


# --- sources ------------------------------------------------------------------------------------------

SECRETS = ("Zq7Secret", "Zq7User", "X-Amz", "part2")


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://Zq7User:Zq7Secret@host:80/v.mp4?X-Amz-Signature=Zq7Secret&a=1#part2", "https://host:80/v.mp4"),
        ("https://host/v.mp4?v=Zq7Secret", "https://host/v.mp4"),
        ("s3://Zq7User:Zq7Secret@bucket/a?b.mp4", "s3://bucket/a?b.mp4"),
        ("simplecache::https://Zq7User@host/v.mp4?sig=Zq7Secret", "simplecache::https://host/v.mp4"),
        ("tar://a?b#c.mp4::https://host/x.tar?sig=Zq7Secret", "tar://a?b#c.mp4::https://host/x.tar"),
        ("/videos/a?b#c@d.mp4", "/videos/a?b#c@d.mp4"),
        ("caf\udce9.mp4", "caf\udce9.mp4"),
    ],
)
def test_a_text_has_no_secrets_of_urls(url: str, written: str) -> None:
    clip = plan_over(NamedCatalog([index_of([0, 1, 2])], name=url), ff.Uniform(2))[0]
    text = clip.to_json()
    assert not [each for each in SECRETS if each in text]
    made = ff.PlannedClip.from_json(text)
    assert made.source == written
    again = ff.PlannedClip.from_json(text, source=url)
    assert again == clip
    assert again.source == url
    assert again.to_json() == text


def test_sources_are_replaced_by_part() -> None:
    one, both = plan_of()[0], plan_both()[0]
    made = ff.PlannedClip.from_json(one.to_json(), source=Path("/else/where.mp4"))
    assert made.source == "/else/where.mp4"
    changed = ff.PlannedClip.from_json(both.to_json(), source={"fast": "/else/where.mp4"})
    assert (changed["fast"].source, changed["slow"]) == ("/else/where.mp4", both["slow"])
    several = ff.PlannedClip(0, 0, 0, {"": type(both["slow"])((*both["slow"].takes, *both["fast"].takes))})
    two = several.to_json()
    assert ff.PlannedClip.from_json(two, source=["a", "b"]).parts[""].takes[1].source == "b"
    for text, source, message in (
        (one.to_json(), {"": "a"}, "a path, URL, .* got dict"),
        (one.to_json(), Path, "a path, URL"),
        (both.to_json(), "a", r"a dict by stream, of some of \['slow', 'fast'\]"),
        (both.to_json(), {"wrist": "a"}, "a dict by stream"),
        (both.to_json(), {"slow": ["a", "b"]}, "1 sources for the part 'slow', in a list"),
        (two, "a", "2 sources for the part '', in a list"),
    ):
        with pytest.raises(UsageError, match=f"source: expected {message}"):
            ff.PlannedClip.from_json(text, source=source)


def test_versions_may_differ_unless_they_must_not() -> None:
    clip, text = plan_of()[0], get_text()
    assert text["versions"]["machine"] == platform.machine()
    for name in text["versions"]:
        other = json.dumps({**text, "versions": {**text["versions"], name: "61.19"}})
        ff.PlannedClip.from_json(other)
        with pytest.raises(UsageError, match=rf"versions\.{name}: .* planned with '61.19', and this process has '"):
            ff.PlannedClip.from_json(other, strict=True)
    with pytest.raises(UsageError, match="strict: expected True or False"):
        ff.PlannedClip.from_json(clip.to_json(), strict="yes")  # type: ignore[arg-type]
