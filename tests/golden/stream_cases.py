"""Plans of several streams, mixtures, and both."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import framefeed as ff
from tests.fakes import steady_index
from tests.golden.clip_documents import Documents, Group, describe_all, describe_plan, describe_text
from tests.golden.plan_cases import (
    PICKS,
    RULES,
    SEED,
    STEADY,
    UNEVEN,
    UNTIMED,
    HalfCrop,
    damage,
    fake,
    list_requests,
    plan,
    request,
    scan_columns,
)
from tests.load.stream_media import plan_both
from tests.makers import plan_over

# --- streams ------------------------------------------------------------------------------------------

STEMS = [f"scene{number}.mp4" for number in range(6)]


def list_streams(**options: Any) -> dict[str, Any]:
    """Three catalogs of the same scenes, in other orders and rates; some have no partner, and one has no times."""
    fast = [steady_index(round(4 * 25 / 3), fps=33), *(steady_index(n, fps=fps, start=9) for n, fps in
            ((40, 50), (9, 5), (31, 30), (25, 20)))]  # fmt: skip
    slow = [UNEVEN, *(steady_index(n, fps=12, gop=3) for n in (12, 5, 1, 40)), UNTIMED[0]]
    sizes = {"lead": (48, 64), "fast": (36, 48), "slow": (48, 64), **options.pop("sizes", {})}
    return {
        "lead": fake([*STEADY[:4], steady_index(21, fps=10, gop=5), STEADY[5]], names=STEMS, sizes=sizes["lead"]),
        "fast": fake(fast, names=[f"other/{name}" for name in reversed(STEMS[1:])], sizes=sizes["fast"]),
        "slow": fake(slow, names=[*STEMS[2:], STEMS[0], STEMS[1]], sizes=sizes["slow"]),
    }


def plan_streams(rule: Any = None, names: Sequence[str] = ("lead", "fast", "slow"), **options: Any) -> Any:
    """A plan of several streams; by default of 3 catalogs."""
    sizes = options.pop("sizes", {})
    given = {"seed": SEED, "on": "stem", "clips_per_video": 2, "columns": ["label", "score"], **options}
    if isinstance(rule, ff.EveryFrame):
        del given["clips_per_video"]
    catalogs = {name: each for name, each in list_streams(sizes=sizes).items() if name in names}
    return ff.plan_clips(None, rule or ff.RandomSegments(3), streams=catalogs, **given)


def streams(folder: Path) -> Documents:
    """Plans of several streams by one rule, which the others follow by time."""
    rules = ("uniform 4", "segments 3", "dense", "dense from far", "dense error", "dense fps wrap", "rates",
             "indices wrap", "indices error", "seconds next wrap None", "seconds nearest repeat_last 0.02",
             "every frame", "of a user")  # fmt: skip
    for name in rules:
        yield from describe_all(name, plan_streams(RULES[name]), epochs=2)
    for pick, near in product(PICKS, (None, 0.01)):
        made = plan_streams(RULES["dense fps fraction"], pick=pick, tolerance_seconds=near)
        yield from describe_all(f"{pick} {near}", made, epochs=1, text=False)
    for shuffle, size, tail in product((True, False, "videos"), (2, 3), ("pad", "drop")):
        ranks = [plan_streams(shuffle=shuffle, rank=rank, world_size=size, tail=tail) for rank in range(size)]
        yield f"{shuffle} over {size} {tail}", [describe_plan(each) for each in ranks]
    yield "over 2, text", describe_text(plan_streams(rank=1, world_size=2))
    for size in (2, 3):
        ranks = [plan_streams(balance="cost", rank=rank, world_size=size) for rank in range(size)]
        yield f"balanced over {size}", [describe_plan(each) for each in ranks]
        yield f"balanced over {size}, text", describe_text(ranks[0])
    yield from describe_all("one", plan_streams(names=["lead"]), text=False)
    yield from describe_all("one without times", plan_streams(names=["slow"]), text=False)
    yield from describe_all("two", plan_streams(names=["fast", "slow"]), text=False)
    yield from describe_all("within", plan_streams(RULES["dense"], within=("start", "end")), epochs=2)
    yield from describe_all("flipped", plan_streams(horizontal_flip=0.5, size=(12, 20)), text=False)
    for on_damaged in ("skip", "deliver"):
        given = list_streams()
        given["fast"].indexes[1] = damage(given["fast"].indexes[1], 0, 5, 7, 11)
        given["lead"].indexes[2] = damage(given["lead"].indexes[2], 1, 2)
        made = ff.plan_clips(None, ff.RandomSegments(4), streams=given, on="stem", seed=3, on_damaged=on_damaged)
        yield from describe_all(f"damaged {on_damaged}", made, epochs=2)
    real = [plan_both(), plan_both(ff.Dense(3, fps=7), size={"slow": (24, 32), "fast": ff.Letterbox(30, 50)})]
    for number, made in enumerate(real):
        yield from describe_all(f"of files {number}", made, epochs=2, text=False)
    same = fake(STEADY[:3], names=STEMS[:3])
    twice = ff.plan_clips(
        None, ff.Dense(3), streams={"a": same, "b": same}, on="stem", seed=1, size={"a": 24, "b": None}
    )
    yield from describe_all("one catalog twice", twice)
    half = {"one": scan_columns().take([0, 3, 6, 9]), "other": scan_columns().take([9, 10, 3, 0])}
    for on in ("key", "group"):
        for at in (None, "frames", "times"):
            given = {"rule": ff.RandomSegments(2)} if at is None else {"at": at}
            made = ff.plan_clips(streams=half, on=on, seed=5, columns=["grid", "label"], **given)
            yield from describe_all(f"on {on} at {at}", made, epochs=1, text=False)


def stream_pictures(folder: Path) -> Documents:
    """Sizes and crops of streams: one draw serves all, of one crop as the same part of each picture."""
    alike = {"fast": (48, 64)}
    every = {"lead": (20, 30), "fast": (12, 20), "slow": None}
    cases: dict[str, dict[str, Any]] = {
        "short": {"size": 24},
        "by stream": {"size": every},
        "letterboxes": {"size": ff.Letterbox(30, 40)},
        "a letterbox": {"size": {**every, "fast": ff.Letterbox(20, fill=9)}},
        "random": {"crop": ff.RandomCrop(20, 30), "sizes": alike},
        "random, resized": {"crop": ff.RandomCrop(20, 30), "size": (12, 20)},
        "random, short": {"crop": ff.RandomCrop(20, 30), "size": 14},
        "resized": {"crop": ff.RandomResizedCrop(16)},
        "resized, size": {"crop": ff.RandomResizedCrop(), "size": (12, 20)},
        "resized, sizes": {"crop": ff.RandomResizedCrop(), "size": {**every, "slow": (8, 8)}},
        "by stream random": {
            "crop": {"lead": ff.RandomCrop(20, 30), "fast": ff.RandomCrop(15, 20), "slow": ff.CenterCrop(20)}
        },
        "by stream resized": {
            "crop": {"lead": ff.RandomResizedCrop(16), "fast": None, "slow": ff.RandomResizedCrop(8, scale=(0.5, 1))}
        },
        "center": {"crop": ff.CenterCrop(30)},
        "of a user": {"crop": HalfCrop(), "size": (12, 16)},
    }
    for name, options in cases.items():
        yield from describe_all(name, plan_streams(horizontal_flip=0.5, **options), epochs=2, text=False)
    unlike = [(40, 60), (60, 40), (48, 48), (40, 60), (33, 71), (80, 31)]
    for name, size in {
        "whole": None,
        "short": 24,
        "boxes": {"lead": ff.Letterbox(30), "fast": None, "slow": 20},
    }.items():
        made = plan_streams(unequal=True, sizes={"lead": unlike, "fast": unlike[:5]}, size=size, horizontal_flip=0.5)
        yield from describe_all(f"unequal {name}", made, epochs=1, text=False)
    listed = [{"rgb": request(0, [0, 1]), "flow": request(1, [2, 3, 4])},
              {"rgb": request(1, seconds=[0.1, 0.3]), "flow": request(3, seconds=[0.1, 0.2, 0.3])},
              {"rgb": request(2, [-1, 40]), "flow": request(2, [0, 1, -3])}]  # fmt: skip
    for name, options in {
        "plain": {}, "shuffled": {"shuffle": True, "seed": 4, "columns": {"label": ["b", "a", "b"]}},
        "cropped": {"crop": ff.RandomResizedCrop(12), "horizontal_flip": 0.5},
        "sizes": {"size": {"rgb": (8, 12), "flow": ff.Letterbox(16)}, "policy": "wrap"},
        "bounds": {"within": (0.1, 0.5), "policy": "error"}, "near": {"tolerance_seconds": 0.01, "pick": "nearest"},
    }.items():  # fmt: skip
        made = ff.plan_requests(listed, **options)
        yield from describe_all(f"requests {name}", made, epochs=2, text=False)
    for size in (2, 5):
        ranks = [ff.plan_requests(listed, shuffle=True, rank=rank, world_size=size) for rank in range(size)]
        yield f"requests over {size}", [describe_plan(each) for each in ranks]


# --- mixtures -----------------------------------------------------------------------------------------


def mix(parts: Sequence[tuple[Any, Any]], **options: Any) -> Any:
    """A mixture; by default of 24 clips."""
    return ff.mix_plans(parts, **{"num_clips": 24, "seed": SEED, **options})


def list_parts() -> list[Any]:
    """Plans that fit together."""
    names = ["label", "score"]
    given: dict[str, Any] = {"size": (20, 30), "columns": names}
    return [
        plan(ff.RandomSegments(3), **given),
        plan(ff.Dense(3, stride=2), fake(STEADY[1:4]), **given, shuffle=False, seed=5),
        plan(ff.Uniform(3), fake(STEADY[2:]), **given, shuffle="videos", clips_per_video=3, epoch=4, crop=(0, 0, 9, 9)),
    ]


def mixtures(folder: Path) -> Documents:
    """Mixtures, of mixtures and of streams."""
    first, second, third = list_parts()
    weights: dict[str, Sequence[Any]] = {
        "thirds": (1, 1, 1), "decimals": (0.7, 0.2, 0.1), "fractions": (Fraction(1, 3), Fraction(5, 2), 7),
        "odd": (1, 1009, 500),
    }  # fmt: skip
    for name, each in weights.items():
        parts = list(zip(list_parts(), each, strict=True))
        yield from describe_all(name, mix(parts))
        yield f"{name} of another seed", describe_plan(mix(parts, seed=0))
        for size, tail in ((2, "pad"), (3, "drop"), (5, "pad"), (5, "drop")):
            ranks = [mix(parts, rank=rank, world_size=size, tail=tail) for rank in range(size)]
            yield f"{name} over {size} {tail}", [describe_plan(rank) for rank in ranks]
    yield "over 2, text", describe_text(mix([(first, 1), (second, 2)], rank=1, world_size=2))
    yield from describe_all("one part", mix([(second, 3)], num_clips=7))
    late = mix([(first, 1), (third, 1)], epoch=10**9, num_clips=9)
    yield from describe_all("a late epoch", late, epochs=2, text=False)
    many = mix([(first, 0.7), (second, 0.3)], num_clips=1 << 40)
    some = [0, 1, 2, 3, 11, 12345, (1 << 40) - 2, (1 << 40) - 1]
    yield "many", [describe_plan(many.with_epoch(epoch), some) for epoch in (0, 1, 7)]
    uneven = mix([(first, 1), (second, 2**45 + 59), (third, 3**28)], num_clips=60)
    yield "many shares", [describe_plan(uneven), describe_plan(uneven.with_epoch(3))]
    small = mix([(plan(ff.Uniform(3), fake(STEADY[:1]), size=(20, 30), seed=seed), weight) for seed, weight in
                 ((1, 2), (2, 3), (3, 1))], num_clips=90)  # fmt: skip
    yield "many epochs of parts, in no order", describe_plan(small, [(37 * number) % 90 for number in range(90)])
    inner = mix([(first, 1), (second, 2)], num_clips=10, seed=2)
    outer = mix([(inner, 0.6), (third, 0.4)])
    yield from describe_all("of a mixture", outer)
    yield from describe_all("of mixtures", mix([(outer, 1), (mix([(third, 1)], num_clips=5), 2)], num_clips=31))
    ranks = [mix([(inner, 1), (third, 2)], rank=rank, world_size=3, tail="drop") for rank in range(3)]
    yield "of a mixture over 3", [describe_plan(each) for each in ranks]
    flips = [plan(None, size=(20, 30), horizontal_flip=flip, seed=seed) for seed, flip in ((1, 0.5), (2, 0.0))]
    yield from describe_all("flipped", mix([(flips[0], 1), (flips[1], 1)]), text=False)
    boxes = [plan(None, size=ff.Letterbox(30, fill=fill), seed=fill) for fill in (1, 2)]
    yield from describe_all("letterboxes", mix([(boxes[0], 1), (boxes[1], 1)]), text=False)
    forms = ((1, ff.RandomCrop(30, 40), "skip"), (2, ff.RandomResizedCrop(), "deliver"))
    crops = [plan(None, size=(20, 30), crop=crop, on_damaged=damage, seed=seed) for seed, crop, damage in forms]
    yield from describe_all("crops", mix([(crops[0], 1), (crops[1], 3)]), text=False)
    same = fake()
    shared = [plan(rule, same, seed=seed) for seed, rule in ((1, ff.Uniform(3)), (2, ff.Dense(3)))]
    alike = mix([(shared[0], 1), (shared[1], 1)])
    yield from describe_all("of one catalog", mix([(alike, 2), (plan(ff.Uniform(3), seed=5), 1)]), text=False)
    frames = plan(ff.EveryFrame(), columns=["small"]), plan(ff.AtIndices([-1]), columns=["small"])
    yield from describe_all("every frame", mix([(frames[0], 3), (frames[1], 1)]))
    error = plan(ff.AtIndices([2, 8], policy="error"), size=(8, 8)), plan(ff.AtSeconds([0.1, 0.2]), size=(8, 8))
    yield from describe_all("failing clips", mix([(error[0], 1), (error[1], 1)]))
    listed = [ff.plan_requests(list_requests(), size=(8, 12), columns={"label": list("abcabca")}, shuffle=shuffle)
              for shuffle in (False, True)]  # fmt: skip
    yield from describe_all("requests", mix([(listed[0], 1), (listed[1], 2)]), text=False)
    at = [plan_over(scan_columns(), at=name, seed=1, columns=["grid", "codes"]) for name in ("frames", "times")]
    yield from describe_all("at columns", mix([(at[0], 1), (at[1], 2)]), text=False)
    several = [plan_streams(size=(8, 12)), plan_streams(RULES["segments 3"], seed=4, shuffle="videos", size=(8, 12))]
    both = mix([(several[0], 1), (several[1], 0.5)])
    yield from describe_all("of streams", both, epochs=2)
    ranks = [mix([(several[0], 1), (several[1], 3)], rank=rank, world_size=3) for rank in range(3)]
    yield "of streams over 3", [describe_plan(each) for each in ranks]
    nested = mix([(mix([(several[0], 1), (several[1], 1)], num_clips=6), 1), (several[1], 2)])
    yield from describe_all("of a mixture of streams", nested, text=False)
    fixed = [plan_streams(crop=ff.RandomResizedCrop(16), horizontal_flip=0.5, seed=seed) for seed in (1, 2)]
    yield from describe_all("of cropped streams", mix([(fixed[0], 1), (fixed[1], 1)]), text=False)


GROUPS: dict[str, Group] = {
    "streams": streams,
    "stream pictures": stream_pictures,
    "mixtures": mixtures,
}
"""Groups of plans by name; each takes a folder for its files."""
