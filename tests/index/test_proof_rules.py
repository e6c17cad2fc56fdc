"""Every rule of a prover refuses a stream about which a prover without rules is wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from framefeed import FrameIndex, Limits, bitstreams, build_index
from framefeed._values import DEFAULT_LIMITS, DISPOSABLE, KEY, PacketWalk
from framefeed.errors import FramefeedError
from framefeed.index import proofs
from framefeed.index.proofs._proving import Proof, Unproved
from framefeed.media import VideoContainer
from framefeed.testing import ClipSpec, clip_bytes
from tests.bitstreams.vpx_cases import MUTANTS
from tests.index.proof_checks import BelievesPackets, MakeProver, differences, make_prover, mistakes, prove, refusal
from tests.index.test_proof_intra import INTRA, cut_file, intra_file

NO_MISTAKE = {
    "times are missing or go backward": "the frames are as proved; which times are theirs is seen by decoding",
    "a packet that shows an earlier picture, which the container calls a key frame": "here the container is right",
    "an intra-only frame, which may be of another format than the frames before it": "here it is of the same format",
}
"""Rules without which the same frames are found."""
BITSTREAMS, PROOFS = (Path(package.__path__[0]) for package in (bitstreams, proofs))
READERS = (*(BITSTREAMS / name for name in ("_vpx.py", "_av1.py", "_intra.py")), PROOFS / "_packet_order.py")
TRIED_ELSEWHERE = {"__init__.py", "_h264.py", "_hevc.py", "_nal.py", "_proving.py"}
"""Modules of proofs that test_proof_nal.py tries."""


@dataclass(frozen=True)
class Rule:
    """One ``raise OddUnits`` of a reader, or ``raise Unproved`` of a prover."""

    module: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.module}: {self.message}"


def _rules(path: Path) -> Iterator[Rule]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield Rule(path.stem, node.lineno, ast.literal_eval(node.exc.args[0]))


RULES = [
    *(rule for path in READERS for rule in _rules(path)),
    *(rule for rule in _rules(BITSTREAMS / "_bits.py") if "breaks off" in rule.message),
]


@dataclass(frozen=True)
class _Case:
    """A stream, and what full verification finds; None where that is an error."""

    data: bytes
    limits: Limits = DEFAULT_LIMITS

    def full(self) -> FrameIndex | None:
        try:
            return build_index(self.data, "full", limits=self.limits)
        except FramefeedError:
            return None

    def mistakes_of(self, make: MakeProver) -> list[str]:
        return mistakes(prove(self.data, make, self.limits), self.full())


@lru_cache(maxsize=1)
def _misled() -> dict[tuple[str, int], list[bool]]:
    """By the rule that refuses a stream: whether a prover without rules is wrong about the stream."""
    cases = [_Case(mutant.make(), mutant.limits) for mutant in MUTANTS.values()]
    with TemporaryDirectory() as folder:
        cases += [_Case(intra_file(name, Path(folder)).read_bytes()) for name in INTRA]
        cases.append(_Case(cut_file(Path(folder))))
    answers: dict[tuple[str, int], list[bool]] = {}
    for case in cases:
        try:
            assert case.mistakes_of(make_prover) == []
        except Unproved as error:
            answers.setdefault(refusal(error), []).append(bool(case.mistakes_of(BelievesPackets)))
    return answers


def test_no_module_of_proofs_is_left_out() -> None:
    assert {path.name for path in PROOFS.glob("*.py")} - {path.name for path in READERS} == TRIED_ELSEWHERE


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_refuses_what_misleads_a_prover_without_rules(rule: Rule) -> None:
    assert any(_misled()[rule.module, rule.line]) is (rule.message not in NO_MISTAKE)


# --- other mistakes ---------------------------------------------------------------------------------


@dataclass
class Changed:
    """The prover of a codec, which is given another walk, or whose answer is changed."""

    container: VideoContainer

    def __post_init__(self) -> None:
        self.prover = make_prover(self.container)

    def add(self, packet: memoryview) -> None:
        self.prover.add(packet)

    def prove(self, walk: PacketWalk) -> Proof:
        raise NotImplementedError


class OwnFlagsAlone(Changed):
    """Every key frame of the bitstream counts."""

    def prove(self, walk: PacketWalk) -> Proof:
        return self.prover.prove(replace(walk, packets=replace(walk.packets, flags=walk.packets.flags | KEY)))


class ContainersFlagsAlone(Changed):
    """Every key frame of the container counts."""

    def prove(self, walk: PacketWalk) -> Proof:
        return self.prover.prove(walk)._replace(is_key=walk.packets.is_key)


class ShowsDiscarded(Changed):
    """What the container discards is shown."""

    def prove(self, walk: PacketWalk) -> Proof:
        flags = walk.packets.flags & (KEY | DISPOSABLE)
        return self.prover.prove(replace(walk, packets=replace(walk.packets, flags=flags)))


def _edited() -> bytes:
    options = {"avoid_negative_ts": "disabled"}
    spec = ClipSpec(30, codec="libvpx-vp9", b_frames=None, gop=10, start_seconds=-0.2, container_options=options)
    return clip_bytes(spec, "mp4")


# "AV1, the key shown in another's place", of the SVT-AV1 of PyAV 18.1: what that of 19 writes shows no mistake.
_STORED = Path(__file__).with_name("key_shown_again_av1.ivf")
WRONG: dict[str, tuple[MakeProver, Callable[[], bytes]]] = {
    "hidden frames come out": (BelievesPackets, MUTANTS["VP8, hidden"].make),
    "hidden key frames come out": (BelievesPackets, MUTANTS["VP9, hidden key"].make),
    "slots are not refreshed": (BelievesPackets, _STORED.read_bytes),
    "the packets' flags alone": (OwnFlagsAlone, MUTANTS["VP9, a hidden frame, and a key"].make),
    "the container's flags alone": (ContainersFlagsAlone, MUTANTS["VP9, a hidden key, and another that is shown"].make),
    "what is discarded is shown": (ShowsDiscarded, _edited),
}


@pytest.mark.parametrize(("make", "stream"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_prover_is_caught(make: MakeProver, stream: Callable[[], bytes]) -> None:
    assert _Case(stream()).mistakes_of(make) != []


@pytest.mark.parametrize("make", [BelievesPackets, OwnFlagsAlone, ContainersFlagsAlone, ShowsDiscarded, make_prover])
def test_a_wrong_prover_is_right_about_a_plain_stream(make: MakeProver) -> None:
    assert _Case(MUTANTS["VP9"].make()).mistakes_of(make) == []


def test_a_description_without_the_containers_turn_is_caught() -> None:
    spec = ClipSpec(6, codec="libvpx-vp9", b_frames=None)
    plain, turned = clip_bytes(spec, "webm"), clip_bytes(replace(spec, rotation=90), "webm")
    assert "stream" in differences(build_index(plain), build_index(turned, "full"))


def test_a_description_without_the_containers_colours_is_caught() -> None:
    plain = clip_bytes(ClipSpec(4, codec="libvpx-vp9", b_frames=None), "mp4")
    described = bytearray(plain)
    described[described.index(b"vpcC") + 4 + 6] |= 1  # full range, which the stream itself denies
    assert differences(build_index(plain), build_index(bytes(described), "full")) == ["stream"]
