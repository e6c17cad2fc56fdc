"""Every error can travel: from its message alone, through pickle, and through PyTorch's worker border."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
import traceback

import pytest

from framefeed import errors
from framefeed.errors import FramefeedError
from tests.house import package_sources

ERRORS = sorted(
    (kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FramefeedError)),
    key=lambda kind: kind.__name__,
)

SECOND_BASES = {
    "UsageError": ValueError,
    "MediaError": RuntimeError,
    "MissingMedia": FileNotFoundError,
    "NoVideoStream": ValueError,
    "FrameNotFound": IndexError,
    "TimeUnavailable": RuntimeError,
    "DeadlineExceeded": TimeoutError,
    "MissingDependency": ImportError,
}

CONTEXT = {"source": "a b.mp4", "position": 7, "stage": "decode"}

# `│   └── MissingMedia  no such file   (also FileNotFoundError)`
DRAWN = re.compile(r"^(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:.*\(also (?P<also>\w+)\))?")


def _drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Name -> (parent, second base), as drawn in the module's docstring."""
    drawing = (errors.__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    path: list[str] = []
    tree: dict[str, tuple[str | None, str | None]] = {}
    for line in inspect.cleandoc(drawing).splitlines():
        match = DRAWN.match(line)
        assert match, line
        depth = len(match["indent"]) // 4
        path = [*path[:depth], match["name"]]
        tree[match["name"]] = (path[-2] if depth else None, match["also"])
    return tree


def _second_base(kind: type[FramefeedError]) -> str | None:
    own = [base.__name__ for base in kind.__bases__ if not issubclass(base, FramefeedError)]
    return own[0] if own and kind is not FramefeedError else None


def _real_tree() -> dict[str, tuple[str | None, str | None]]:
    return {
        kind.__name__: (None if kind is FramefeedError else kind.__bases__[0].__name__, _second_base(kind))
        for kind in ERRORS
    }


def test_the_tree_is_drawn_as_it_is() -> None:
    assert _drawn_tree() == _real_tree()


def test_second_bases_are_as_listed() -> None:
    assert {kind.__name__: kind for kind in ERRORS}.keys() >= SECOND_BASES.keys()
    assert {kind.__name__: _second_base(kind) for kind in ERRORS if _second_base(kind)} == {
        name: base.__name__ for name, base in SECOND_BASES.items()
    }


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_has_a_docstring_of_its_own(kind: type[FramefeedError]) -> None:
    assert "__doc__" in vars(kind)
    assert kind.__doc__


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_can_be_built_from_its_message_alone(kind: type[FramefeedError]) -> None:
    error = kind("what was wanted, what was found, what next")
    assert str(error) == "what was wanted, what was found, what next"
    assert (error.source, error.position, error.stage) == (None, None, None)


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_can_be_built_without_arguments(kind: type[FramefeedError]) -> None:
    assert str(kind()) == ""


@pytest.mark.parametrize("kind", ERRORS)
def test_pytorch_can_rebuild_each_error(kind: type[FramefeedError]) -> None:
    # torch/_utils.py, ExceptionWrapper.reraise: `exception = self.exc_type(msg)`; a class with a `message` attribute
    # is built as `self.exc_type(message=msg)`.
    assert not hasattr(kind, "message")
    error = kind("no frame 9", **CONTEXT)
    rebuilt = type(error)("Caught in worker 0.\n" + str(error))
    assert "no frame 9" in str(rebuilt)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_each_error_is_pickled_with_its_context(kind: type[FramefeedError], protocol: int) -> None:
    error = kind("no frame 9", **CONTEXT)
    error.add_note("seen twice")
    copied = pickle.loads(pickle.dumps(error, protocol))
    assert type(copied) is kind
    assert str(copied) == "no frame 9"
    assert vars(copied) == vars(error)
    assert copied.__notes__ == ["seen twice"]


def test_attributes_of_one_error_are_pickled_too() -> None:
    damaged = errors.CorruptMedia("2 frames", frames=[3, 5], source="a.mp4")
    failed = errors.WorkerLost("died", remote_traceback="Traceback ...", position=4)
    assert pickle.loads(pickle.dumps(damaged)).frames == (3, 5)
    assert pickle.loads(pickle.dumps(failed)).remote_traceback == "Traceback ..."


@pytest.mark.parametrize("kind", ERRORS)
def test_a_position_that_became_known_late_ends_the_text_and_travels(kind: type[FramefeedError]) -> None:
    error = kind("no frame 9", source="a b.mp4", stage="decode")
    error.position = error.late_position = 7
    text = "no frame 9 (clip at position 7)"
    travelled = [pickle.loads(pickle.dumps(error)), pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))]
    assert [str(each) for each in (error, copy.copy(error), *travelled)] == [text] * 4
    assert [vars(each) for each in travelled] == [vars(error)] * 2
    # As torch's workers send it: the end of the text of the traceback.
    sent = "".join(traceback.format_exception_only(error)).rstrip()
    assert str(kind(f"Caught {kind.__name__} in DataLoader worker process 0.\n{sent}")).endswith(text)


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_is_caught_by_its_second_base(kind: type[FramefeedError]) -> None:
    expected = [base for name, base in SECOND_BASES.items() if issubclass(kind, getattr(errors, name))]
    assert all(issubclass(kind, base) for base in expected)
    assert issubclass(kind, FramefeedError)


def test_every_limit_exceeded_names_its_limit() -> None:
    unnamed, num_built = [], 0
    for source in package_sources():
        for node in source.nodes if "LimitExceeded(" in source.text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LimitExceeded":
                num_built += 1
                if "limit" not in {keyword.arg for keyword in node.keywords}:
                    unnamed.append(source.at(node, "has no limit="))
    assert num_built >= 7
    assert unnamed == []
