"""The facade is guarded: visible == exported == documented."""

import ast
import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import pytest

import framefeed as ff
from framefeed._nearest import OTHER_NAMES
from tests.lengths import IS_ALL
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
FIXED = set(
    """
    probe scan Catalog CatalogEntry build_index FrameIndex VideoDecoder Frame FrameBatch MediaInfo DecodeRequest
    ImageSequence
    Uniform Dense RandomSegments Rates AtIndices AtSeconds EveryFrame CenterCrop RandomCrop RandomResizedCrop
    ResizeCrop LongSide Letterbox
    plan_clips plan_requests EpochPlan ClipLoader ClipBatch parallel
    FramefeedError UsageError MediaError UnreadableMedia NoVideoStream EmptyVideo UnsupportedCodec CorruptMedia
    FormatChanged StaleSource LimitExceeded FrameNotFound TimeUnavailable LoadError WorkerLost DeadlineExceeded
    CacheError MissingDependency FrameCache cache map_video
    """.split()  # noqa: SIM905 - a list to read, not to edit one by one
)
"""Names that the public surface fixes for this version."""

ADAPTERS = ("dali", "jax", "ray", "tensorflow", "torch")


def test_exported_names_are_sorted_and_there() -> None:
    assert ff.__all__ == sorted(ff.__all__)
    assert all(hasattr(ff, name) for name in ff.__all__)


def test_visible_is_exported() -> None:
    assert {*ff.__all__} <= set(dir(ff)) <= {*ff.__all__, *ADAPTERS}
    rooms = {path.name for path in (ROOT / "src" / "framefeed").iterdir() if path.is_dir()}
    used = {name: getattr(ff, name) for name in ff.__all__}
    visible = (
        {name for name in vars(ff) if not name.startswith("_")}
        - (rooms - {"bench", "cache", "lerobot", "parallel", "vlm"})
        - {"errors", "annotations", "importlib", "Any", "TYPE_CHECKING"}
        - set(ADAPTERS)  # once a test has imported framefeed.torch
    )
    assert visible | {"__version__"} == set(used)


def test_names_for_static_tools_are_those_at_run_time() -> None:
    tree = ast.parse(Path(ff.__file__).read_text())
    static = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(static) >= {"ClipLoader", "scan", "cache"}
    for name, module in static.items():
        assert getattr(importlib.import_module(module or ""), name) is getattr(ff, name), name


def test_import_loads_few_modules() -> None:
    """Public names bring what they need when they are used (design/0015)."""
    code = (
        "import sys, framefeed; "
        "print(*sorted({'tqdm', 'ssl', 'pydoc', 'PIL', 'numpy', 'av', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=3 * PATIENCE_SECONDS, capture_output=True, text=True
    )
    assert done.stdout.split() == []


def test_fixed_names_are_exported() -> None:
    assert set(ff.__all__) >= FIXED


@pytest.mark.parametrize("name", [name for name in ff.__all__ if name != "__version__"])
def test_exported_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(ff, name)), f"{name} has no docstring"
    assert re.search(rf"`(?:ff\.)?{name}\b", REFERENCE), f"docs/reference.md does not name {name}"


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ff.no_such_name
    with pytest.raises(AttributeError, match="no attribute 'Videodecoder'; did you mean 'VideoDecoder'"):
        _ = ff.Videodecoder
    assert not hasattr(ff, "planclips")
    with pytest.raises(AttributeError, match=r"no attribute 'ClipDataset'; did you mean 'torch\.ClipDataset'"):
        _ = ff.ClipDataset


IMPORTS_OF_TORCH = [
    "assert 'torch' not in sys.modules; assert ff.torch.__name__ == 'framefeed.adapters.torch'; "
    "VideoDecoder, ClipDataset = ff.torch.VideoDecoder, ff.torch.ClipDataset",
    "from framefeed.torch import VideoDecoder, ClipDataset",
    "import framefeed.torch; from framefeed.torch import VideoDecoder, ClipDataset",
    "before = ff.torch; from framefeed.torch import VideoDecoder, ClipDataset; assert ff.torch is before",
    "from framefeed import torch; VideoDecoder, ClipDataset = torch.VideoDecoder, torch.ClipDataset",
]
"""The first in an interpreter without PyTorch, each with a package that was not imported before."""


def test_the_torch_adapter_comes_on_first_use_and_is_one_module_under_both_names() -> None:
    pytest.importorskip("torch")
    code = """
import sys
for statement in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "framefeed"]:
        del sys.modules[name]
    exec(f"import sys, framefeed as ff; {statement}; import framefeed.torch as door", names := {})
    ff, door = names["ff"], names["door"]
    assert door is ff.torch is sys.modules["framefeed.adapters.torch"], (statement, ff.torch)
    assert (names["VideoDecoder"], names["ClipDataset"]) == (ff.torch.VideoDecoder, ff.torch.ClipDataset), statement
"""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *IMPORTS_OF_TORCH], check=True, timeout=3 * PATIENCE_SECONDS
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_door_of_an_adapter_shows_all_of_it(name: str) -> None:
    package = ROOT / "src" / "framefeed"
    doors = [re.search(r"__all__ = (\[.*?\])", path.read_text(), re.S)
             for path in (package / f"{name}.py", package / "adapters" / name / "__init__.py")]  # fmt: skip
    assert doors[0] is not None
    assert doors[1] is not None
    assert ast.literal_eval(doors[0][1]) == ast.literal_eval(doors[1][1])


FRAMEWORKS = ("nvidia.dali", "jax", "ray", "ray.data", "tensorflow", "torch")
MEMBERS = {"dali": "pipeline", "jax": "iterate", "ray": "dataset", "tensorflow": "dataset", "torch": "VideoDecoder"}
"""Adapter -> one of its names."""


def test_from_import_names_what_does_not_exist() -> None:
    for name in ("AudioDecoder", "VideoEncoder", "clips_at_random_indices"):
        with pytest.raises(AttributeError, match=f"'framefeed.torch' has no attribute '{name}': "):
            getattr(ff.torch, name)
    with pytest.raises(ImportError, match="framefeed does not decode sound"):
        from framefeed.torch import AudioDecoder  # noqa: F401
    with pytest.raises(ImportError, match="'Nothing'"):
        from framefeed.torch import Nothing  # noqa: F401
    assert not hasattr(ff.torch, "Nothing")


def test_what_probes_a_door_finds_no_unknown_name() -> None:
    doors = [ff, ff.cache, ff.lerobot, ff.parallel, importlib.import_module("framefeed.testing")]
    if importlib.util.find_spec("torch") is not None:
        doors += [ff.torch, importlib.import_module("framefeed.compat.decord")]
    names = [*OTHER_NAMES, "FrameBatch_", "__wrapped__", "__deepcopy__", "__test__", "__path_", "_ipython_display_"]
    for door in doors:
        unknown = [name for name in names if name not in vars(door) and name not in getattr(door, "__all__", ())]
        assert not [name for name in unknown if hasattr(door, name)], door.__name__
        assert {getattr(door, name, None) for name in unknown} == {None}
        assert inspect.unwrap(door) is door  # type: ignore[arg-type]
        doctest.DocTestFinder().find(door)
        if IS_ALL or door is ff:
            create_autospec(door)
    assert not hasattr(pytest.importorskip("framefeed.torch"), "FrameBatch")


def test_names_are_listed_whatever_is_installed_and_say_which_extra_is_missing() -> None:
    code = f"""
import sys
sys.modules |= dict.fromkeys({FRAMEWORKS!r})
import inspect, pydoc, framefeed as ff
assert dir(ff) == ff.__all__
assert {{*dir(ff)}} <= {{name for name, _ in inspect.getmembers(ff)}}
assert "ClipLoader" in pydoc.render_doc(ff)
for name, member in {MEMBERS!r}.items():
    for use in (f"hasattr(ff, {{name!r}})", f"from framefeed.{{name}} import {{member}}"):
        try:
            exec(use)
        except ff.MissingDependency as error:
            assert f"framefeed[{{name}}]" in str(error), use
        else:
            raise SystemExit(use)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=3 * PATIENCE_SECONDS)
