"""The docs are run: every block of README.md and docs/, page by page, as a reader would who copies them in order.

Python blocks of a page share one module, and ``expression  # -> text`` in them promises the expression's repr. Shell
blocks run ``framefeed`` in this process (tests/cli runs it as a program), and ``# exit code N`` promises that; without
it the code is 0. Signature blocks are compared with the code. ``<!-- not run: reason -->`` on the line before a block
leaves it out.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import linecache
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import framefeed as ff
from framefeed.cli import COMMANDS, main
from framefeed.testing import make_folder
from tests.adapters.ranks import report_of_ranks
from tests.cli.running import SECONDS, environment

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = ROOT / "docs" / "reference.md"
HAS_TORCH = importlib.util.find_spec("torch") is not None
RUN, SHOWN = ("python", "shell"), ("signature", "text", "toml")

_BLOCK = re.compile(r"(?:^<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>.*)\n(?P<code>(?s:.*?))^```$", re.M)
_LINK = re.compile(r"(?<!!)\[[^]]*\]\((?!https?:)(?P<path>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")
_HEADING = re.compile(r"^(#{1,6}) (.*)$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def needs(self) -> str | None:
        """The framework without which a program of its own cannot run."""
        found = re.search(r"^import (jax|tensorflow)\b", self.code, re.M) if self.language == "python" else None
        return found and found[1]

    @property
    def needs_torch(self) -> bool:
        return self.language == "python" and re.search(r"\btorch\b", self.code) is not None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start("code")) + 1, match["language"], match["code"], match["reason"])
        for match in _BLOCK.finditer(text)
    ]


def names_of(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


# --- blocks ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media") / "videos"
    make_folder(folder, videos_per_class=3, seconds=20.0)
    return folder


@pytest.fixture
def at_home(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with ``videos/`` in it, and change to it."""
    shutil.copytree(videos, tmp_path / "videos")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def page_module() -> Iterator[ModuleType]:
    """Where a page's code lives: a real module, so that its classes and functions can be pickled."""
    module = ModuleType("docs_page")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]
    # One by one: of a DataLoader in a cycle, the collector first closes the pipes by which it ends its workers (10 s).
    module.__dict__.clear()


def run_python(block: Block, module: ModuleType) -> None:
    # Empty lines before it, so that a traceback names the line of the page.
    name, source = str(block.page), "\n" * (block.line - 1) + block.code
    linecache.cache[name] = (len(source), None, block.page.read_text(encoding="utf-8").splitlines(True), name)
    module.__dict__["check_shown"] = check_shown
    exec(compile(with_checks(source), name, "exec"), module.__dict__)  # noqa: S102 - running them is the point


def with_checks(source: str) -> ast.Module:
    """Turn ``expression  # -> text`` into a check that this is the expression's repr."""
    tree, lines, promises = ast.parse(source), source.splitlines(), source.count("# -> ")
    for node in tree.body:
        # A page is no script, but what its scripts do is to be run.
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            node.test = ast.copy_location(ast.Constant(True), node.test)
    for node in tree.body:
        said = re.search(r"  # -> (.*)$", lines[(node.end_lineno or 1) - 1])
        if said is not None:
            assert isinstance(node, ast.Expr), f"not an expression: {lines[node.lineno - 1]}"
            check = ast.Name("check_shown", ast.Load())
            node.value = ast.copy_location(ast.Call(check, [node.value, ast.Constant(said[1])], []), node.value)
            promises -= 1
    assert not promises, "a promise is checked only at the end of a whole expression"
    return ast.fix_missing_locations(tree)


def check_shown(value: object, said: str) -> None:
    assert repr(value) == said


def run_shell(block: Block) -> None:
    known = set(sys.modules)
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "framefeed", f"{block.place}: mark what is not run: {line}"
        expected = int(found[1]) if (found := re.search(r"# exit code (\d+)", line)) else 0
        assert main(words[1:]) == expected, f"{block.place}: {line}"
    # Another page has a module of the same name, in another folder.
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(os.getcwd()):
            del sys.modules[name]


@pytest.mark.parametrize("source", ["1 + 1  # -> 3", "x = 2  # -> 2", "if True:\n    1 + 1  # -> 2"])
def test_a_promise_that_is_wrong_or_unchecked_is_caught(source: str) -> None:
    with pytest.raises(AssertionError):
        exec(compile(with_checks(source), "page", "exec"), {"check_shown": check_shown})  # noqa: S102 - see above


def test_what_a_script_does_is_run() -> None:
    found: dict[str, Any] = {"__name__": "page"}
    exec(compile(with_checks('if __name__ == "__main__":\n    x = 2'), "page", "exec"), found)  # noqa: S102 - see above
    assert found["x"] == 2


def quick_start() -> str:
    return next(block.code for block in blocks_of(ROOT / "README.md") if block.needs_torch)


def test_the_quick_start_does_nothing_where_a_spawned_worker_imports_it(at_home: Path) -> None:
    pytest.importorskip("torch")
    before = {path.name for path in at_home.iterdir()}
    (at_home / "train.py").write_text(quick_start())
    assert "catalog" not in runpy.run_path("train.py", run_name="__mp_main__")
    assert {path.name for path in at_home.iterdir()} == {*before, "train.py"}


@pytest.mark.slow
@pytest.mark.test_all
def test_the_quick_start_is_a_script_that_spawned_workers_can_import(at_home: Path) -> None:
    pytest.importorskip("torch")
    spawned = 'import multiprocessing\n\nmultiprocessing.set_start_method("spawn", force=True)\n'
    # Each epoch starts its workers, which import PyTorch.
    one_epoch = quick_start().replace("range(3)", "range(1)").replace("num_workers=2", "num_workers=1")
    assert one_epoch.count("range(1)") == one_epoch.count("num_workers=1") == 1
    (at_home / "train.py").write_text(spawned + one_epoch)
    command = [sys.executable, "train.py"]
    result = subprocess.run(command, cwd=at_home, env=environment(), capture_output=True, timeout=SECONDS)
    assert result.returncode == 0, result.stderr.decode()


@pytest.mark.slow
def test_scripts_run_on_two_ranks(at_home: Path) -> None:
    pytest.importorskip("torch")
    for page, mark in (("README.md", "set_epoch"), ("docs/guide.md", "init_process_group")):
        block = next(block for block in blocks_of(ROOT / page) if block.needs_torch and mark in block.code)
        # Each epoch of each rank would start two workers, which import PyTorch.
        code = block.code.replace("range(3)", "range(1)").replace("num_workers=2", "num_workers=1")
        (at_home / f"{mark}.py").write_text(code)
    assert report_of_ranks("tests.adapters.script_ranks", at_home) == [["init_process_group.py", "set_epoch.py"]] * 2
    assert not list(at_home.glob("*.journal"))


# What PyTorch thinks of the number of workers on a small machine, and Python of forking, is not the docs' matter.
@pytest.mark.filterwarnings("error:.* videos are shorter than this rule's ")
@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_blocks_run_in_order(page: Path, at_home: Path, page_module: ModuleType) -> None:
    left_out = []
    for block in blocks_of(page):
        if block.reason is not None or block.language not in RUN:
            continue
        if block.needs is not None:  # tests/adapters/framework_checks.py runs it
            continue
        if block.needs_torch and not HAS_TORCH:
            left_out.append(block.place)
        elif block.language == "python":
            run_python(block, page_module)
        else:
            run_shell(block)
    if left_out:
        pytest.skip(f"without torch, these were left out: {', '.join(left_out)}")


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_blocks_say_what_they_are(page: Path) -> None:
    blocks = blocks_of(page)
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks)
    for block in blocks:
        assert block.language in RUN + SHOWN, f"{block.place}: a block of which kind?"
        assert block.reason is None or (block.reason and block.language in RUN), f"{block.place}: not run, and why?"


# --- links ----------------------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    titles = (match[2] for match in _HEADING.finditer(_BLOCK.sub("", page.read_text(encoding="utf-8"))))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    for match in _LINK.finditer(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / match["path"]).resolve() if match["path"] else page
        assert target.exists(), match[0]
        assert not match["anchor"] or match["anchor"] in anchors_of(target), match[0]


# --- the reference --------------------------------------------------------------------------------


def resolve(name: str) -> Any:
    found: Any = ff
    for part in name.split("."):
        found = getattr(found, part)
    return found


def as_documented(line: str) -> tuple[str, inspect.Signature]:
    name, _, rest = line.partition("(")
    source = f"def function({rest.split(' -> ')[0]}: ..."
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    names: dict[str, Any] = {}
    exec(source, {"DecodeCounts": ff.DecodeCounts}, names)  # noqa: S102 - a line of the reference, which is ours
    return name, inspect.signature(names["function"])


# Those of TensorFlow, JAX, DALI and Ray are compared by their own tests, in a process or an environment of their own.
SIGNATURES = [
    line
    for block in blocks_of(REFERENCE)
    if block.language == "signature"
    for line in block.code.splitlines()
    if not line.startswith(("tensorflow.", "jax.", "dali.", "ray."))
]


@pytest.mark.parametrize("line", SIGNATURES, ids=[line.partition("(")[0] for line in SIGNATURES])
def test_signatures_are_those_of_the_code(line: str) -> None:
    if line.startswith("torch."):
        pytest.importorskip("torch")
    name, documented = as_documented(line)
    actual = inspect.signature(resolve(name))
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in actual.parameters.values()]
    assert list(documented.parameters.values()) == plain


TORCH_CALLABLES = ("ClipDataset", "ClipDataset.set_epoch", "VideoDecoder")

# Members that serve framefeed itself: public to its rooms, and nobody else's to call.
INTERNAL = {
    "Catalog": {"compact", "media_source", "rebased", "stream_values"},
    "CatalogEntry": {"as_media_source"},
    "ClipLoader": {"iterate_run"},
    "FrameFault": {"from_json", "of"},
    "ImageSequence": {"as_media_source", "digest", "name", "times"},
    "Limits": {"check_picture"},
    "PlannedClip": {"takes"},
    **{
        rule: {"choose"}
        for rule in ("AtIndices", "AtSeconds", "Dense", "EveryFrame", "RandomSegments", "Rates", "Uniform")
    },
    **{crop: {"box", "resizes"} for crop in ("CenterCrop", "RandomCrop", "RandomResizedCrop")},
    "LongSide": {"common", "fit"},
    "Letterbox": {"common", "fit", "place"},
    "ResizeCrop": {"common", "fit", "fits"},
}
CLASSES = [
    name for name in ff.__all__ if inspect.isclass(getattr(ff, name)) and not issubclass(getattr(ff, name), Exception)
]


def section_of(name: str) -> str:
    """The section of the reference that is headed by a name, else everything."""
    text = REFERENCE.read_text(encoding="utf-8")
    head = re.search(rf"^### `{re.escape(name)}`$", text, re.M)
    if head is None:
        return text
    return re.split(r"^#{1,3} ", text[head.end() :], maxsplit=1, flags=re.M)[0]


@pytest.mark.parametrize("name", CLASSES)
def test_members_are_documented(name: str) -> None:
    kind = getattr(ff, name)
    members = {each for each in {*dir(kind), *getattr(kind, "__annotations__", {})} if not each.startswith("_")}
    section = section_of(name)
    missing = {each for each in members - INTERNAL.get(name, set()) if not re.search(rf"\b{each}\b", section)}
    assert not missing, f"docs/reference.md says nothing of these of {name}: {sorted(missing)}"


# Made by other calls, never by a user: what makes them is documented.
MADE = {"Catalog", "CatalogEntry", "ClipBatch", "Decoder", "EpochPlan", "Frame", "FrameBatch", "FrameFault",
        "FrameIndex", "MapIterator", "MapResult", "MappedFrame", "MediaInfo", "PlannedClip",
        "VideoMetadata"}  # fmt: skip
CALLABLES = [
    *(name for name in ff.__all__ if inspect.isfunction(getattr(ff, name))),
    *(f"{name}.__init__" for name in CLASSES if name not in MADE),
    *(
        f"{name}.{member}"
        for name in CLASSES
        for member in dir(getattr(ff, name))
        if not member.startswith("_")
        and member not in INTERNAL.get(name, set())
        and isinstance(inspect.getattr_static(getattr(ff, name), member), (FunctionType, classmethod))
    ),
    *(f"cache.{name}" for name in ("build", "known_codecs")),
    *(f"parallel.{name}" for name in ("ordered_map", "ordered_outcomes", "thread_budget")),
    *(f"torch.{name}" for name in TORCH_CALLABLES),
]


def plain(signature: inspect.Signature) -> list[inspect.Parameter]:
    """Parameters by name, kind and default, without the one that a method is bound to."""
    given = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return [each.replace(default=ff.DecodeCounts()) if repr(each.default) == "<factory>" else each
            for each in given if each.name != "self"]  # fmt: skip


def written_calls(section: str, name: str) -> Iterator[list[inspect.Parameter]]:
    """Parameters of every call of a name that a section writes out, on a line of a block or between backquotes."""
    for line in [*section.splitlines(), *re.findall(r"`([^`\n]+)`", section)]:
        match = re.fullmatch(rf"(?:Catalog\.)?{re.escape(name)}\((?P<given>.*)\)(?: -> .*)?", line)
        if match is not None:
            with suppress(SyntaxError):  # an example, not a signature
                yield plain(as_documented(f"function({match['given']})")[1])


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters_are_documented(name: str) -> None:
    if name.startswith("torch."):
        pytest.importorskip("torch")
    owner, _, member = name.rpartition(".")
    target = resolve(owner) if member == "__init__" else resolve(name)
    written = owner if member == "__init__" else name if owner in ("cache", "parallel", "torch") else member
    section = section_of(name if owner in ("cache", "parallel", "torch") else owner or name)
    wanted = plain(inspect.signature(target))
    found = list(written_calls(section, written))
    assert wanted in found, f"docs/reference.md must write {written}({', '.join(map(str, wanted))}); it has {found}"


def rows_of(command: str) -> str:
    """The rows of a command in the reference's table."""
    lines = REFERENCE.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith(f"| `framefeed {command}"))


@pytest.mark.parametrize("words", [[command] for command in COMMANDS if command != "cache"] + [["cache", "build"]])
def test_options_of_commands_are_documented(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help", "--out"}
    said = rows_of(" ".join(words))
    assert [option for option in sorted(options) if not re.search(rf"{option}(?![a-z-])", said)] == []


def test_readme_and_reference_say_the_same_of_exit_codes() -> None:
    said = [re.search(r"^Exit codes: .*?our bug\.", page.read_text(encoding="utf-8"), re.M | re.S)
            for page in (ROOT / "README.md", REFERENCE)]  # fmt: skip
    assert all(said)
    assert len({" ".join(each[0].split()) for each in said if each}) == 1
