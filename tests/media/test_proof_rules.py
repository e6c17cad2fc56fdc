"""Provers that are wrong on purpose: without any one of their rules they believe what is not so."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from framefeed import FrameIndex, Limits, build_index
from framefeed.errors import FramefeedError
from framefeed.media import _provers, proofs
from framefeed.media._details import StreamColors
from framefeed.media._info import DEFAULT_LIMITS
from framefeed.media._packets import DISPOSABLE, KEY
from framefeed.media.proofs import _av1, _intra, _proving, _vpx
from framefeed.media.proofs._av1 import read_frame
from framefeed.media.proofs._proving import Proof
from framefeed.testing import ClipSpec, clip_bytes
from tests.media.proof_checks import PROVED, differences
from tests.media.test_proof_intra import INTRA, cut_file, intra_file
from tests.media.vpx_cases import MUTANTS

LEFT_OUT = {
    "_proving..prove_in_packet_order.2": "the frames are as proved; which times are theirs is seen by decoding",
}
"""Rules without which the same frames are found."""
READERS = (_vpx, _av1, _intra, _proving)
TRIED_ELSEWHERE = {"_h264", "_hevc", "_nal", "_rules"}
"""Modules of proofs whose rules test_proof_nal.py takes out."""


@dataclass(frozen=True)
class Rule:
    """One ``raise Unproved`` of a prover: the n-th of a function or method."""

    module: ModuleType
    owner: str
    function: str
    number: int

    def __str__(self) -> str:
        return ".".join([self.module.__name__.rsplit(".", 1)[1], self.owner, self.function, str(self.number)])


class _WithoutRule(ast.NodeTransformer):
    """Passes where a function raises Unproved for the n-th time."""

    def __init__(self, number: int) -> None:
        self.number, self.met = number, 0

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        call = node.exc
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Unproved"):
            return node
        self.met += 1
        return ast.copy_location(ast.Pass(), node) if self.met == self.number + 1 else node


def _parsed(function: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _rules() -> Iterator[Rule]:
    for module in READERS:
        scopes = [("", module), *inspect.getmembers(module, inspect.isclass)]
        for owner, scope in scopes:
            for name, function in inspect.getmembers(scope, inspect.isfunction):
                is_own = function.__code__.co_filename == module.__file__
                if is_own and function.__qualname__ == f"{owner}.{name}".lstrip("."):
                    count = _WithoutRule(-1)
                    count.visit(_parsed(function))
                    yield from (Rule(module, owner, name, number) for number in range(count.met))


def _drop(rule: Rule, patch: pytest.MonkeyPatch) -> None:
    scope = getattr(rule.module, rule.owner) if rule.owner else rule.module
    old = getattr(scope, rule.function)
    tree = ast.fix_missing_locations(_WithoutRule(rule.number).visit(_parsed(old)))
    new: dict[str, Any] = {}
    exec(compile(tree, str(rule), "exec"), vars(rule.module), new)  # noqa: S102  the package's own source
    for target in [scope] if rule.owner else [*READERS, _provers]:
        if getattr(target, rule.function, None) is old:
            patch.setattr(target, rule.function, new[rule.function])


@dataclass(frozen=True)
class _Case:
    """A stream, and what full verification finds; None where that is an error."""

    data: bytes
    limits: Limits
    full: FrameIndex | None


@lru_cache(maxsize=1)
def _cases() -> list[_Case]:
    media = [(mutant.make(), mutant.limits) for mutant in MUTANTS.values()]
    with TemporaryDirectory() as folder:
        media += [(intra_file(name, Path(folder)).read_bytes(), DEFAULT_LIMITS) for name in INTRA]
        media.append((cut_file(Path(folder)), DEFAULT_LIMITS))
    cases = []
    for data, limits in media:
        try:
            cases.append(_Case(data, limits, build_index(data, "full", limits=limits)))
        except FramefeedError:
            cases.append(_Case(data, limits, None))
    return cases


def _is_caught(case: _Case) -> bool:
    """Whether a stream is believed to give other frames than it gives, or trips a prover up."""
    try:
        index = build_index(case.data, limits=case.limits)
    except FramefeedError:
        return False
    except (IndexError, KeyError, ValueError, TypeError, AttributeError):
        return True
    return index.built_from == PROVED and (case.full is None or bool(differences(index, case.full)))


def test_provers_with_all_rules_are_right() -> None:
    assert not any(_is_caught(case) for case in _cases())


def test_no_module_of_proofs_is_left_out() -> None:
    modules = {module.name for module in pkgutil.iter_modules(proofs.__path__)}
    assert modules == {reader.__name__.rpartition(".")[2] for reader in READERS} | TRIED_ELSEWHERE


@pytest.mark.parametrize("rule", list(_rules()), ids=str)
def test_a_prover_without_a_rule_is_caught(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    if str(rule) in LEFT_OUT:
        pytest.skip(LEFT_OUT[str(rule)])
    _drop(rule, monkeypatch)
    assert any(_is_caught(case) for case in _cases())


# --- other mistakes ---------------------------------------------------------------------------------


def _flags_of(choose: Callable[[Any, Any], Any]) -> Callable[..., Proof]:
    real = _proving.prove_in_packet_order

    def prove(walk: Any, is_shown: Any, is_key: Any, *described: Any) -> Proof:
        return replace(real(walk, is_shown, is_key, *described), is_key=choose(is_key, walk.packets.is_key))

    return prove


def _without_discards(walk: Any, *args: Any) -> Proof:
    packets = replace(walk.packets, flags=walk.packets.flags & (KEY | DISPOSABLE))
    return _proving.prove_in_packet_order(replace(walk, packets=packets), *args)


def _without_slots(unit: memoryview, sequence: Any) -> Any:
    return read_frame(unit, sequence)._replace(refreshed=0)


def _turned() -> bytes:
    return clip_bytes(ClipSpec(6, codec="libvpx-vp9", b_frames=None, rotation=90), "webm")


def _edited() -> bytes:
    options = {"avoid_negative_ts": "disabled"}
    spec = ClipSpec(30, codec="libvpx-vp9", b_frames=None, gop=10, start_seconds=-0.2, container_options=options)
    return clip_bytes(spec, "mp4")


def _described() -> bytes:
    """Say in the container that samples are of the full range, and in the stream that they are not."""
    clip = bytearray(clip_bytes(ClipSpec(4, codec="libvpx-vp9", b_frames=None), "mp4"))
    clip[clip.index(b"vpcC") + 4 + 6] |= 1
    return bytes(clip)


def _overrule(_: StreamColors, other: StreamColors) -> StreamColors:
    return other


WRONG: dict[str, tuple[Any, str, Any, Callable[[], bytes]]] = {
    "hidden frames come out": (_vpx, "_IS_SHOWN", -1, MUTANTS["VP8, hidden"].make),
    "a superframe is one frame": (_vpx, "_SUPERFRAME", -1, MUTANTS["VP9, hidden and shown"].make),
    "slots are not refreshed": (
        _av1,
        "read_frame",
        _without_slots,
        MUTANTS["AV1, the key shown in another's place"].make,
    ),
    "the packets' flags alone": (
        _vpx,
        "prove_in_packet_order",
        _flags_of(lambda own, _: own),
        MUTANTS["VP9, a hidden frame, and a key"].make,
    ),
    "the container's flags alone": (
        _vpx,
        "prove_in_packet_order",
        _flags_of(lambda _, other: other),
        MUTANTS["VP9, a hidden key, and another that is shown"].make,
    ),
    "what is discarded is shown": (_vpx, "prove_in_packet_order", _without_discards, _edited),
    "nothing is turned": (_provers, "is_upright", lambda _: True, _turned),
    "colours are the codec's": (StreamColors, "fill", _overrule, _described),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_prover_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, value, make = WRONG[name]
    data = make()
    case = _Case(data, DEFAULT_LIMITS, build_index(data, "full"))
    assert not _is_caught(case)
    monkeypatch.setattr(target, attribute, value)
    assert _is_caught(case)
