"""The house rules that ruff does not have: each takes source text and gives the places that break it.

A rule is a function `(Source) -> list[str]`; tests/test_house_rules.py runs every rule over src and over sentences
that break it. To make an exception, add a line with its reason to the table above the rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property  # noqa: TID251 - no process is forked here
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

PACKAGE = "framefeed"
SRC = Path(__file__).resolve().parents[1] / "src"

MAX_MODULE_LINES = 600

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One module: its dotted name and its text."""

    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.module)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree; walking it takes most of the time of a rule."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[ast.stmt, str]]:
        return list(imported_modules(statements(self.tree)))

    @cached_property
    def names(self) -> dict[str, str]:
        return imported_names(statements(self.tree))

    @property
    def room(self) -> str:
        """`framefeed.media._source` is in `media`; the facade is in ``""``."""
        return [*self.module.split("."), ""][1]

    def within(self, package: str) -> bool:
        return self.module == package or self.module.startswith(package + ".")

    def at(self, node: ast.AST, complaint: str) -> str:
        return f"{self.module}:{getattr(node, 'lineno', 1)}: {complaint}"


Rule = Callable[[Source], list[str]]

MODULE_FILES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts): path for path in sorted((SRC / PACKAGE).rglob("*.py"))
}
"""Every file of the package by its dotted name, ``__init__`` included."""


def package_sources() -> list[Source]:
    """Every module of the package, by name."""
    return [
        Source(name.removesuffix(".__init__"), path.read_text(encoding="utf-8")) for name, path in MODULE_FILES.items()
    ]


# These see inside several rooms, and are left out where the rule is checked.
_DISTURBS = "disturbs the survey and the files of the catalog that a scan makes"
SEES_INSIDE = {
    "tests.test_formats": "compares the page about formats with the constants of each room",
    "tests.conftest": "has clients ask again at once",
    "tests.poison": "fills the memory that loaders and pools lend",
    "tests.plan.test_balance": "predicts costs with other constants",
    "tests.scanning.full_disk": _DISTURBS,
    "tests.scanning.killed_scan": _DISTURBS,
    "tests.scanning.killed_worker": _DISTURBS,
    "tests.scanning.lost_worker": _DISTURBS,
    "tests.scanning.stopped_scan": _DISTURBS,
    "tests.scanning.test_journal_writer": _DISTURBS,
    "tests.scanning.test_power_loss": _DISTURBS,
    "tests.scanning.test_resuming": _DISTURBS,
    "tests.scanning.test_scanning": _DISTURBS,
    "tests.scanning.test_shortages": _DISTURBS,
    "tests.transcode.hanging": "ends the time of calls in worker processes by hand",
}


def outside_sources() -> list[Source]:
    """Every file of tests and benchmarks; a test of a room is in that room."""
    tests = SRC.parent / "tests"
    sources = [
        Source(".".join(path.relative_to(tests.parent).with_suffix("").parts), path.read_text(encoding="utf-8"))
        for path in sorted(tests.rglob("*.py"))
    ]
    return sources + [
        Source("benchmarks", path.read_text(encoding="utf-8"))
        for path in sorted((SRC.parent / "benchmarks").rglob("*.py"))
    ]


# --- reading the tree -----------------------------------------------------------------------------


def inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right inside a node: those of an expression are none, and most nodes are expressions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, block, None)
        if isinstance(inner, list):
            yield from inner


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement inside a node."""
    for each in inner_statements(node):
        yield each
        yield from statements(each)


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a chain of attributes; a call or a subscript in it is `?`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Local name -> what it stands for: `{"np": "numpy", "Thread": "threading.Thread"}`."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.AST, names: dict[str, str]) -> str:
    """The dotted name with its first part replaced by what it was imported as."""
    first, dot, rest = dotted(node).partition(".")
    return names.get(first, first) + dot + rest


def imported_modules(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.stmt, str]]:
    """Every import as (statement, dotted name): `from a import b` gives both `a` and `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield node, prefix
            for alias in node.names:
                yield node, f"{prefix}.{alias.name}"


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Every function and method with its qualified name, nested ones included."""
    for node in inner_statements(tree):
        if isinstance(node, FunctionNode | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, FunctionNode):
                yield name, node
            yield from functions(node, f"{name}.")
        else:
            yield from functions(node, prefix)


# --- size -----------------------------------------------------------------------------------------


def module_size(source: Source) -> list[str]:
    lines = len(source.text.splitlines())
    return [f"{source.module}: {lines} lines, at most {MAX_MODULE_LINES}"] if lines > MAX_MODULE_LINES else []


_RIDDLES = re.compile(r"\b(nobody|whoever|somebody|anybody|lets? go|letting go)\b", re.IGNORECASE)


def plain_words(source: Source) -> list[str]:
    """A sentence names who does something, or does without."""
    lines = enumerate(source.text.splitlines(), 1)
    return [f"{source.module}:{number}: {met[0]}" for number, line in lines if (met := _RIDDLES.search(line))]


# --- what no room may do --------------------------------------------------------------------------

UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
UNSAFE_KEYWORDS = {"shell", "allow_pickle"}
# Between a process and the workers that it has started, over sockets that nobody else has.
PICKLING_ROOM = "parallel"


def unsafe_calls(source: Source) -> list[str]:
    """Data is never code: nothing that is read may be run."""
    found = [
        source.at(node, f"imports {name}")
        for node, name in source.imports
        if name.split(".")[0] in UNSAFE_MODULES and source.room != PICKLING_ROOM
    ]
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg in UNSAFE_KEYWORDS and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                found.append(source.at(node, f"{keyword.arg} is not False"))
    return found


SEEDED = {"numpy.random": {"Generator", "Philox", "SeedSequence"}, "random": {"Random"}}
SAVED = {"numpy.random": {"get_state", "set_state"}, "random": {"getstate", "setstate"}}
"""Adapters save and restore what samplers of users draw from; they draw nothing."""


def global_generator(source: Source) -> list[str]:
    """Chance comes from `Generator(Philox(...))`; outside of plan and request also from `default_rng(seed)`."""
    names = source.names
    seeded_calls = {
        node.func
        for node in source.nodes
        if isinstance(node, ast.Call)
        and (node.args or node.keywords)
        and full_name(node.func, names) == "numpy.random.default_rng"
        and source.room not in ("plan", "request")
    }
    found = []
    for node in source.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or dotted(node).partition(".")[0] not in names:
            continue
        module, _, name = full_name(node, names).rpartition(".")
        is_saved = source.room == "adapters" and name in SAVED.get(module, ())
        if module in SEEDED and name not in SEEDED[module] and node not in seeded_calls and not is_saved:
            found.append(source.at(node, f"{module}.{name} instead of a Generator(Philox(...))"))
    return found


# Modules that look others up at run time by design, and what they look up.
LOADS_BY_NAME = {
    "framefeed": "each public name at its first use, through the module __getattr__",
    "framefeed.bench.advice._loading": "the user's transform, in the process that runs it",
    "framefeed.bench.baselines": "baselines by name",
    "framefeed.cli": "a command's module when it is asked for",
    "framefeed.decode._registry": "decoders by name, entry points",
    "framefeed.media._members": "what reads archives when a member is named, and Parquet, above it, for a value",
    "framefeed.media.remote": "what reads objects, with urllib3, which an extra installs, when there is one",
    "framefeed.pictures._plug_ins": "plug-ins of Pillow, which an extra installs, when a file needs one",
}


def lazy_imports(source: Source) -> list[str]:
    """An own import inside a function hides a cycle; a module looked up by name hides a border."""
    found = []
    names = source.names
    for name, function in functions(source.tree):
        if source.module == PACKAGE and name == "__getattr__":
            continue
        found += [
            source.at(node, f"{name} imports {module} when called")
            for node, module in imported_modules(statements(function))
            if module.startswith((PACKAGE, "."))
        ]
    if source.module not in LOADS_BY_NAME:
        found += [
            source.at(node, "loads a module by name")
            for node in source.nodes
            if isinstance(node, ast.Call)
            and full_name(node.func, names) in {"importlib.import_module", "__import__", "importlib.__import__"}
        ]
    return found


# `except Exception` that does not raise again: where code that is not ours runs, and the error travels on as a value.
BROAD_EXCEPT = {
    "framefeed._outcome": "the worker border: any error of the user's function becomes an Err at its position",
    "framefeed.parallel._worker": "the same border in a worker process, which imports the standard library alone",
    "framefeed.cli": "whatever reaches the top is our bug: traceback and exit 70",
}
BROAD = {"Exception", "BaseException"}


def _is_broad(node: ast.expr | None) -> bool:
    if node is None:
        return True
    members = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(dotted(member).split(".")[-1] in BROAD for member in members)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def broad_except(source: Source) -> list[str]:
    """One handler that catches everything, in the modules above only; cleaning up and raising again is free."""
    names = source.names
    handlers: list[ast.AST] = [
        node
        for node in source.nodes
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node)
    ]
    handlers += [
        node
        for node in source.nodes
        if isinstance(node, ast.Call)
        and full_name(node.func, names) == "contextlib.suppress"
        and any(_is_broad(argument) for argument in node.args)
    ]
    allowed = 1 if source.module in BROAD_EXCEPT else 0
    if len(handlers) <= allowed:
        return []
    return [source.at(node, f"catches everything; {allowed} of these allowed here") for node in handlers]


# --- what one room may do -------------------------------------------------------------------------

STARTERS = {
    "Thread",
    "Timer",
    "ThreadPool",
    "ThreadPoolExecutor",
    "Process",
    "Pool",
    "ProcessPoolExecutor",
    "InterpreterPoolExecutor",
    "fork",
    "forkpty",
    "start_new_thread",
    "to_thread",
    "run_in_executor",
}
STARTING_MODULES = {"threading", "multiprocessing", "concurrent", "_thread", "asyncio", "os"}
# A call that may never return has a thread of its own.
STARTING_PLACES = {"framefeed.parallel", "framefeed._stopping"}


def starts_workers(source: Source) -> list[str]:
    """`parallel` alone starts threads and processes; a Lock or a threading.local is free everywhere."""
    if any(source.within(place) for place in STARTING_PLACES):
        return []
    names = source.names
    if not STARTING_MODULES & {name.split(".")[0] for name in names.values()}:
        return []
    used = [node.func for node in source.nodes if isinstance(node, ast.Call)]
    used += [base for node in source.nodes if isinstance(node, ast.ClassDef) for base in node.bases]
    found = []
    for node in used:
        name = full_name(node, names)
        own = name.startswith(f"{PACKAGE}.") or "." not in name  # a class of this package, or of this very module
        if name.split(".")[-1] in STARTERS and not own:
            found.append(source.at(node, f"uses {name}"))
    return found


FRAMEWORKS = {"jax", "nvidia", "ray", "tensorflow", "torch"}


def one_framework(source: Source) -> list[str]:
    """An adapter is made of one framework."""
    if source.room != "adapters":
        return []
    met = sorted({name.split(".")[0] for _, name in source.imports} & FRAMEWORKS)
    return [f"{source.module}: imports {' and '.join(met)}"] if len(met) > 1 else []


# Modules of rooms that are known by name: the commands, one module a codec library, one module a peer, and libraries
# whose names scripts import.
KNOWN_BY_NAME = {
    "framefeed.bench.baselines",
    "framefeed.cli",
    "framefeed.compat",
    "framefeed.compat.decord",
    "framefeed.decode.backends",
}


_IMPORTED = re.compile(r"^[ \t]*(?:from (framefeed[\w.]*) import (\([^)]*\)|.*)|import (framefeed[\w.]*))", re.M)


def seems_to_open_a_room(source: Source) -> bool:
    """Whether a text has what looks like an import from inside another room: parsing all tests takes five seconds."""
    for package, names, module in _IMPORTED.findall(source.text):
        _, *room = f"{package}{module}".split(".", 2)
        if room and room[0] != source.room and re.search(r"\b_[a-z]", f"{room[1:]} {names}"):
            return True
    return False


def doors(source: Source) -> list[str]:
    """Other rooms, and tests of other rooms, import from a package; the modules inside it are its own."""
    found = []
    for node, name in source.imports:
        package, room, *inner = [*name.split("."), ""]
        if package == PACKAGE and room != source.room and any(_is_private(part) for part in inner):
            found.append(source.at(node, f"imports {name}, which is inside {room}"))
    return found


def underscored(source: Source) -> list[str]:
    """A module of a room is private, so that its package says what others may use."""
    parent, _, name = source.module.rpartition(".")
    is_package = "." not in parent or f"{source.module}.__init__" in MODULE_FILES
    if is_package or name.startswith("_") or parent in KNOWN_BY_NAME:
        return []
    return [f"{source.module}: is a module of a room, but is not called _{name}"]


# Room -> modules of other rooms whose names it may not take, also not from a package: decoding starts nothing and
# orders nothing (the same contract stands in .importlinter for the modules themselves); a plan opens no file.
_OPEN_FILES = (
    "index._build",
    "index._pictures",
    "index._probe",
    "media._container",
    "media._packets",
    "media._sequence_files",
)
CLOSED = {
    "decode": ("parallel._ordered", "parallel._ordered_map", "parallel._pools", "parallel._processes"),
    "plan": ("_files", "catalog._catalog_file", "catalog._memory_catalog", "scanning._scan", *_OPEN_FILES),
    "request": ("_files", *_OPEN_FILES),
}
CLOSED_NAMES_TAKEN = {
    ("framefeed.plan._plan_requests", "make_memory_catalog"): "indexes the sources of requests",
}


def closed_names(source: Source) -> list[str]:
    """What a contract keeps from a room stays out of it when another package offers it."""
    found = []
    for module in CLOSED.get(source.room, ()):
        room = module.rpartition(".")[0]
        if not room:  # a module that all rooms share
            found += [
                source.at(node, f"imports {name}") for node, name in source.imports if name == f"{PACKAGE}.{module}"
            ]
            continue
        offers = offered(room).get(f"{PACKAGE}.{module}", ())
        taken = {name for module, name in CLOSED_NAMES_TAKEN if module == source.module}
        names = {f"{PACKAGE}.{room}.{name}" for name in set(offers) - taken}
        found += [source.at(node, f"imports {name}") for node, name in source.imports if name in names]
    return found


@cache
def offered(room: str) -> dict[str, list[str]]:
    """Module inside a room -> the names of it that the room's package offers."""
    tree = ast.parse((SRC / PACKAGE / Path(*room.split(".")) / "__init__.py").read_text(encoding="utf-8"))
    names: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names.setdefault(node.module, []).extend(alias.name for alias in node.names)
    return names


def _is_private(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


RULES: dict[str, Rule] = {
    "module size": module_size,
    "unsafe calls": unsafe_calls,
    "global generator": global_generator,
    "lazy imports": lazy_imports,
    "broad except": broad_except,
    "starts workers": starts_workers,
    "one framework": one_framework,
    "doors": doors,
    "underscored": underscored,
    "closed names": closed_names,
    "plain words": plain_words,
}


# --- what an import brings along ------------------------------------------------------------------

HEAVY = {"cv2", "dali", "decord", "jax", "nvidia", "ray", "spdl", "tensorflow", "torch", "torchcodec", "torchvision"}


def modules_after(statement: str) -> set[str]:
    """Modules that are loaded once a fresh interpreter has run `statement`."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=3 * PATIENCE_SECONDS
    )
    return set(run.stdout.split())


def heavy_modules_after(statement: str) -> list[str]:
    """Frameworks and peers that are loaded once a fresh interpreter has run `statement`."""
    return sorted({name.split(".")[0] for name in modules_after(statement)} & HEAVY)
