"""Decode runs: laws over small indexes made by hand and over indexes of real clips."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import DISPOSABLE, KEY, PacketTable
from framefeed.errors import FrameNotFound
from framefeed.index import FrameIndex, StreamFacts, build_index, find_frame_starts
from framefeed.index._runs import DEMUXER_JUMP_COST, MOST_HELD_BACK, DecodeRuns, RunKind, plan_runs
from tests.corpus import corpus_file


def index_of(pictures: str, *, contiguous: bool = True, skips: bool = True) -> FrameIndex:
    """An index of packets in decode order: I key frame, P picture that others refer to, B one that nobody refers to.

    A B is shown before the I or P that precedes it in the file, as in plain coding with B-frames.
    """
    count = len(pictures)
    flags = np.array([{"I": KEY, "P": 0, "B": DISPOSABLE}[letter] for letter in pictures], dtype=np.uint8)
    order = _parse_order(pictures)
    numbers = np.arange(count, dtype=np.int64)
    pts = np.empty(count, dtype=np.int64)
    pts[order] = numbers
    packets = PacketTable(numbers * 1000, np.full(count, 1000, dtype=np.int64), pts, flags)
    return FrameIndex(
        pts=numbers.copy(),
        duration=np.ones(count, dtype=np.int64),
        time_base=Fraction(1, 25),
        key_frame_indices=np.flatnonzero(flags[order] == KEY).astype(np.int64),
        built_from="decode",
        frame_packet=order,
        frame_start=find_frame_starts(order, flags == KEY, packets),
        packets=packets,
        stream=StreamFacts(0, "mov", "h264", None, 64, 48, "yuv420p", contiguous=contiguous, skips_exactly=skips),
    )


def _parse_order(pictures: str) -> np.ndarray:
    order: list[int] = []
    held: int | None = None
    for number, letter in enumerate(pictures):
        if letter == "B" and held is not None:
            order.append(number)
            continue
        if held is not None:
            order.append(held)
        held = number
    return np.array([*order, held] if held is not None else order, dtype=np.int64)


PICTURES = st.text("IPPPBB", min_size=1, max_size=60).map(lambda text: f"I{text}")
INDEXES = st.builds(index_of, PICTURES, contiguous=st.booleans(), skips=st.booleans())
ORDINALS = st.lists(st.integers(0, 10**6), max_size=20)


def split_runs(runs: DecodeRuns) -> list[list[int]]:
    return [run.send.tolist() for run in runs.runs]


def join_runs(runs: DecodeRuns, name: str) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *(getattr(run, name) for run in runs.runs)])


@given(INDEXES, ORDINALS, st.booleans())
def test_every_frame_is_sent_with_the_packets_it_needs(index: FrameIndex, numbers: list[int], skip: bool) -> None:
    ordinals = [number % len(index) for number in numbers]
    runs = plan_runs(index, ordinals, skip=skip)
    sent = split_runs(runs)
    delivered, packets = join_runs(runs, "ordinals"), join_runs(runs, "packets")
    assert sorted(delivered.tolist()) == sorted(set(ordinals)), "each once"
    np.testing.assert_array_equal(packets, index.frame_packet[delivered])
    assert np.all(np.diff(packets) > 0), "in packet order"
    assert all(set(run.packets.tolist()) <= set(run.send.tolist()) for run in runs.runs), "each by its own run"
    flags = index.packets.flags
    for ordinal in set(ordinals):
        packet, start = int(index.frame_packet[ordinal]), int(index.frame_start[ordinal])
        [run] = [run for run in sent if run[0] <= packet <= run[-1]]
        assert run[0] <= start
        needed = [number for number in range(start, packet) if not flags[number] & DISPOSABLE]
        assert {*needed, packet} <= set(run)


@given(INDEXES, ORDINALS, st.booleans())
def test_nothing_is_sent_twice_nor_without_need(index: FrameIndex, numbers: list[int], skip: bool) -> None:
    ordinals = [number % len(index) for number in numbers]
    runs = plan_runs(index, ordinals, skip=skip)
    sent = split_runs(runs)
    assert np.all(np.diff(runs.send) > 0), "no group of pictures is decoded twice"
    assert all(run for run in sent)
    assert len(runs) == len(sent)
    packets = join_runs(runs, "packets")
    assert runs.num_decoded == len(runs.send)
    last = {run[-1] for run in sent}
    assert last <= set(packets.tolist()), "a run ends with a wanted frame"
    if skip and index.stream.skips_exactly:
        unwanted = set(runs.send.tolist()) - set(packets.tolist())
        assert not any(index.packets.flags[number] & DISPOSABLE for number in unwanted)
    starts = index.frame_start[join_runs(runs, "ordinals")]
    longest = int((packets - starts + 1).sum())
    slack = 0 if index.stream.contiguous else DEMUXER_JUMP_COST * max(len(sent), len(ordinals))
    assert runs.num_decoded <= longest + slack


@given(INDEXES, ORDINALS, st.booleans(), st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(index: FrameIndex, numbers: list[int], skip: bool, chance) -> None:  # type: ignore[no-untyped-def]
    ordinals = [number % len(index) for number in numbers]
    shuffled = ordinals + ordinals[:5]
    chance.shuffle(shuffled)
    one, other = plan_runs(index, ordinals, skip=skip), plan_runs(index, shuffled, skip=skip)
    assert split_runs(one) == split_runs(other)
    for name in ("ordinals", "packets", "before"):
        np.testing.assert_array_equal(join_runs(one, name), join_runs(other, name))


@pytest.mark.parametrize(
    ("pictures", "ordinals", "sent"),
    [
        ("IPPPIPPP", [0], [[0]]),
        ("IPPPIPPP", [3], [[0, 1, 2, 3]]),
        ("IPPPIPPP", [5, 1], [[0, 1], [4, 5]]),
        ("IPPPIPPP", [3, 4], [[0, 1, 2, 3, 4]]),  # nothing lies between: one run
        ("IPPPIPPP", [], []),
        # Packets I0 P1 B2 B3 P4 B5 B6, shown as 0 2 3 1 5 6 4.
        ("IPBBPBB", [3], [[0, 1]]),
        ("IPBBPBB", [6], [[0, 1, 4]]),  # four pictures that nobody needs are not even read
        ("IPBBPBB", [1], [[0, 1, 2]]),
        ("IPBBPBB", [5, 1], [[0, 1, 2, 4, 6]]),
        # Packets I0 P1 I2 B3 P4: picture 3 is shown before the key frame 2 and refers to what comes before it.
        ("IPIBP", [2], [[0, 1, 2, 3]]),
        ("IPIBP", [3], [[2]]),
        ("IPIBP", [4], [[2, 4]]),
    ],
)
def test_M04_M15_what_is_sent(pictures: str, ordinals: list[int], sent: list[list[int]]) -> None:
    assert split_runs(plan_runs(index_of(pictures), ordinals)) == sent


def test_without_skipping_everything_between_is_sent() -> None:
    assert split_runs(plan_runs(index_of("IPBBPBB"), [6], skip=False)) == [[0, 1, 2, 3, 4]]
    assert split_runs(plan_runs(index_of("IPBBPBB", skips=False), [6])) == [[0, 1, 2, 3, 4]]


def test_a_jump_through_a_container_must_pay() -> None:
    pictures = ("I" + "P" * 9) * 8
    direct, contained = index_of(pictures), index_of(pictures, contiguous=False)
    near, far = [9, 21], [9, 41]  # the second group starts at packet 20, or at 40
    assert len(plan_runs(direct, near)) == 2
    assert len(plan_runs(contained, near)) == 1
    assert len(plan_runs(contained, far)) == 2


@pytest.mark.parametrize("ordinals", [[8], [-1], [0, 100], [10**9], [-(10**9)]])
def test_frames_that_do_not_exist_are_refused(ordinals: list[int]) -> None:
    with pytest.raises(FrameNotFound, match="8 frames"):
        plan_runs(index_of("IPPPIPPP"), ordinals)


def test_M12_both_packets_of_a_frame_are_sent() -> None:
    index = build_index(corpus_file("fields.mp4"))
    for ordinal in range(len(index)):
        first = int(index.frame_packet[ordinal])
        assert {first, first + 1} <= set(plan_runs(index, [ordinal]).send.tolist())


def test_M06_discarded_packets_are_sent() -> None:
    index = build_index(corpus_file("edit_list.mp4"))
    assert plan_runs(index, [0], skip=False).send[0] == 0
    assert plan_runs(index, [0], skip=False).num_decoded > 1


def test_M15_cost_of_a_very_long_group() -> None:
    index = build_index(corpus_file("long_gop.mp4"))
    assert plan_runs(index, [499, 0, 250], skip=False).num_decoded <= 500
    assert plan_runs(index, np.arange(500)).num_decoded == 500
    assert plan_runs(index, [499]).num_decoded < 350, "the pictures that nobody refers to are left out"
    assert plan_runs(index, range(10)).num_decoded <= 13


def test_D01_frames_that_may_be_damaged_have_one_run_a_start_with_every_packet() -> None:
    index = index_of("IPPBBIPPPIP")
    runs = plan_runs(index, [1, 3, 10], with_damage=True)
    assert [run.kind for run in runs.runs] == [RunKind.DAMAGED] * 2
    assert split_runs(runs) == [list(range(11)), [9, 10]]
    long = index_of("I" + "P" * 40)
    assert split_runs(plan_runs(long, [3], with_damage=True)) == [list(range(4 + MOST_HELD_BACK))]


def test_frames_of_one_packet_have_runs_of_their_own() -> None:
    index = index_of("IPPPIPPP")
    index = replace(index, frame_packet=np.array([0, 1, 1, 3, 4, 5, 6, 7]))
    runs = plan_runs(index, [2, 5])
    assert [run.kind for run in runs.runs] == [RunKind.SHARED, RunKind.UNDAMAGED]
    assert split_runs(runs) == [[0, 1], [4, 5]]
    assert [run.before.tolist() for run in runs.runs] == [[1], [0]]
    assert [run.kind for run in plan_runs(index, [1], with_damage=True).runs] == [RunKind.DAMAGED]
