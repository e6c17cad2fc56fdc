"""The house rules hold in src, and each of them can fail."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from framefeed.testing import write_clip
from tests.house import (
    BROAD_EXCEPT,
    LOADS_BY_NAME,
    MAX_MODULE_LINES,
    PACKAGE,
    RULES,
    SEES_INSIDE,
    SRC,
    Source,
    doors,
    heavy_modules_after,
    modules_after,
    outside_sources,
    package_sources,
    seems_to_open_a_room,
)
from tests.patience import PATIENCE_SECONDS

CONTRACTS = SRC.parent / ".importlinter"
RUFF = Path(sys.executable).with_name("ruff")

WRONG = [
    ("module size", "media._source", "x = 1\n" * (MAX_MODULE_LINES + 1)),
    ("unsafe calls", "cache.store._store", "import pickle"),
    ("unsafe calls", "cache.store._store", "from pickle import loads"),
    ("unsafe calls", "cache.store._store", "import marshal as quick"),
    ("unsafe calls", "cache.store._store", "import shelve"),
    ("unsafe calls", "cli.demo", "import subprocess\nsubprocess.run('ls', shell=True)"),
    ("unsafe calls", "cache.store._store", "import numpy as np\nnp.load('x', allow_pickle=True)"),
    ("unsafe calls", "cache.store._store", "import numpy as np\nnp.load('x', allow_pickle=trusted)"),
    ("global generator", "plan._order", "import numpy as np\nnp.random.seed(0)"),
    ("global generator", "plan._order", "import numpy as np\nnp.random.default_rng()"),
    ("global generator", "plan._order", "import numpy as np\nnp.random.default_rng(7)"),
    ("global generator", "testing._stamps", "import numpy as np\nnp.random.default_rng()"),
    ("global generator", "plan._order", "from numpy import random\nrandom.shuffle([1])"),
    ("global generator", "plan._order", "from numpy.random import rand\nrand()"),
    ("global generator", "bench.decode._workloads", "import random\nrandom.shuffle([1])"),
    ("global generator", "load._loader", "import random\nrandom.getstate()"),
    ("global generator", "adapters.torch._randomness", "import random\nrandom.random()"),
    ("lazy imports", "media._source", "def f() -> None:\n    from framefeed.index import build"),
    ("lazy imports", "media._source", "def f() -> None:\n    import framefeed.index"),
    ("lazy imports", "media._source", "def f() -> None:\n    from . import container"),
    ("lazy imports", "media._source", "import importlib\nimportlib.import_module('framefeed.index')"),
    ("lazy imports", "media._source", "from importlib import import_module as find\nfind('framefeed.index')"),
    ("broad except", "media._source", "try:\n    pass\nexcept Exception:\n    pass"),
    ("broad except", "media._source", "try:\n    pass\nexcept:\n    pass"),
    ("broad except", "media._source", "try:\n    pass\nexcept (OSError, BaseException) as error:\n    print(error)"),
    ("broad except", "media._source", "import contextlib\nwith contextlib.suppress(Exception):\n    pass"),
    ("broad except", "_outcome", "try:\n    pass\nexcept Exception:\n    pass\n" * 2),
    ("starts workers", "load._loader", "import threading\nthreading.Thread(target=print).start()"),
    ("starts workers", "load._loader", "from threading import Thread as Helper\nHelper(target=print).start()"),
    ("starts workers", "load._loader", "import threading\nclass Helper(threading.Thread): ..."),
    ("starts workers", "load._loader", "import multiprocessing as mp\nmp.get_context('spawn').Process()"),
    ("starts workers", "load._loader", "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2)"),
    ("starts workers", "load._loader", "import os\nos.fork()"),
    ("one framework", "adapters.jax", "import torch\nimport jax.numpy as jnp"),
    ("doors", "bench._runner", "from framefeed.media._source import Limits"),
    ("doors", "cli.scan", "from framefeed.media import _info"),
    ("doors", "load._loader", "import framefeed.media._source"),
    ("doors", "load._loader", "from framefeed.mp4._boxes import Box"),
    ("underscored", "media.boxes", "x = 1"),
    ("underscored", "index.proofs.nal", "x = 1"),
    ("closed names", "decode._frames", "from framefeed.parallel import ordered_map"),
    ("closed names", "plan._epoch", "from framefeed.catalog import make_memory_catalog"),
    ("closed names", "plan._epoch", "from framefeed.scanning import scan"),
    ("closed names", "plan._epoch", "from framefeed.index import probe"),
    ("closed names", "plan._epoch", "from framefeed._files import stat_regular"),
    ("plain words", "media._source", "# Nobody knows.\nx = 1"),
    ("plain words", "media._source", 'def f() -> None:\n    """Let go of it, whoever asks."""'),
]

RIGHT = [
    ("unsafe calls", "cache.store._store", "import numpy as np\nnp.load('x', allow_pickle=False)"),
    ("unsafe calls", "parallel._processes", "import pickle"),
    ("global generator", "plan._order", "import numpy as np\nnp.random.Generator(np.random.Philox(key=7)).integers(9)"),
    ("global generator", "testing._stamps", "import numpy as np\nnp.random.default_rng(7).integers(9)"),
    ("global generator", "adapters.torch._randomness", "import random\nrandom.setstate(random.getstate())"),
    ("lazy imports", "", "def __getattr__(name: str) -> object:\n    from framefeed.adapters import torch"),
    ("lazy imports", "decode._registry", "import importlib\nimportlib.import_module(name)"),
    ("broad except", "media._source", "try:\n    pass\nexcept BaseException:\n    close()\n    raise"),
    ("broad except", "_outcome", "try:\n    pass\nexcept Exception:\n    pass"),
    ("starts workers", "load._batch", "import threading\nlock = threading.Lock()\nlocal = threading.local()"),
    ("starts workers", "decode._frames", "import threading\nclass Pool: ...\npool = Pool()"),
    ("starts workers", "parallel._pools", "import threading\nthreading.Thread(target=print)"),
    ("doors", "cli.scan", "from framefeed.cli._arguments import Parser"),
    ("doors", "index.proofs._nal", "from framefeed.index._build import build_index"),
    ("doors", "load._loader", "from framefeed._units import size_text"),
    ("doors", "load._loader", "from framefeed.media import Limits"),
    ("underscored", "media._source", "x = 1"),
    ("underscored", "index.proofs", "x = 1"),
    ("underscored", "errors", "x = 1"),
    ("underscored", "cli.scan", "x = 1"),
    ("underscored", "compat.decord.bridge", "x = 1"),
    ("closed names", "load._loader", "from framefeed.parallel import ordered_map"),
    ("closed names", "plan._plan_requests", "from framefeed.catalog import make_memory_catalog"),
    ("plain words", "media._source", "outlet_gone = 1  # unknown"),
]


def _module(name: str) -> str:
    return f"{PACKAGE}.{name}" if name else PACKAGE


@pytest.fixture(scope="module")
def broken() -> dict[str, list[str]]:
    """Per rule the places in src that break it: every module is parsed once, and its tree is not kept."""
    found: dict[str, list[str]] = {rule: [] for rule in RULES}
    for source in package_sources():
        for rule, check in RULES.items():
            found[rule] += check(source)
    return found


@pytest.mark.parametrize("rule", RULES)
def test_src_keeps(rule: str, broken: dict[str, list[str]]) -> None:
    assert not broken[rule], "\n".join([rule, *broken[rule]])


@pytest.mark.parametrize(("rule", "module", "text"), WRONG)
def test_rule_catches(rule: str, module: str, text: str) -> None:
    assert RULES[rule](Source(_module(module), text))
    assert rule != "doors" or seems_to_open_a_room(Source(_module(module), text))


@pytest.mark.parametrize(("rule", "module", "text"), RIGHT)
def test_rule_lets_pass(rule: str, module: str, text: str) -> None:
    assert RULES[rule](Source(_module(module), text)) == []


# Rules of the house that ruff has: its code, and a module of src that breaks it.
WRONG_FOR_RUFF = [
    ("ANN001", "def f(x) -> None: ..."),
    ("ANN003", "def f(*, x: int, **rest) -> None: ..."),
    ("ANN202", "def f(x: int): ..."),
    ("ANN001", "class C:\n    async def f(self, x) -> None: ..."),
    ("PLR0913", f"def f({', '.join(f'p{i}: int' for i in range(9))}) -> None: ..."),
    ("S307", "eval('1')"),
    ("S102", "exec('1')"),
    ("S602", "import subprocess\nsubprocess.run('ls', shell=True)"),
    ("T201", "print(1)"),
    ("TID252", "from . import container"),
    ("TID251", "from functools import cached_property"),
]


@pytest.mark.parametrize(("code", "text"), WRONG_FOR_RUFF)
def test_ruff_catches(code: str, text: str) -> None:
    place = SRC / PACKAGE / "media" / "_made_up.py"  # whose exceptions in pyproject.toml hold
    run = subprocess.run(
        [RUFF, "check", "--no-cache", "--output-format", "concise", "--stdin-filename", place, "-"],
        input=f"{text}\n",
        capture_output=True,
        text=True,
        cwd=SRC.parent,
        timeout=3 * PATIENCE_SECONDS,
    )
    assert f" {code} " in run.stdout, run.stdout + run.stderr


def test_tests_and_benchmarks_open_no_other_room() -> None:
    sources = (source for source in outside_sources() if source.module not in SEES_INSIDE)
    found = [line for source in filter(seems_to_open_a_room, sources) for line in doors(source)]
    assert not found, "\n".join(found)


def test_a_test_may_open_its_own_room_alone() -> None:
    text = "from framefeed.media._source import Limits"
    assert doors(Source("tests.media.test_info", text)) == []
    assert doors(Source("tests.decode.test_info", text))
    assert doors(Source("tests.test_law", text))
    assert doors(Source("benchmarks", text))


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, _, _ in WRONG} == set(RULES)


def test_rules_see_the_whole_package() -> None:
    modules = {source.module for source in package_sources()}
    assert {PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.errors"} <= modules


def test_import_brings_no_framework_along() -> None:
    assert heavy_modules_after(f"import {PACKAGE}") == []


def test_frameworks_brought_along_are_seen() -> None:
    assert heavy_modules_after("import sys; sys.modules['torch'] = sys") == ["torch"]


@pytest.mark.parametrize("use", ["probe(path)", "build_index(path)", "VideoDecoder(path)[5]"])
def test_one_source_needs_no_tables_and_no_plans(use: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4")
    loaded = modules_after(f"import framefeed as ff; path = {str(path)!r}; ff.{use}")
    assert f"{PACKAGE}.index" in loaded
    rooms = {f"{PACKAGE}.{room}" for room in ("catalog", "scanning", "plan", "load")}
    assert not loaded & ({"pyarrow"} | rooms)


def test_a_loader_without_a_cache_loads_no_module_of_it(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4")
    plan = f"ff.plan_requests([ff.DecodeRequest({str(path)!r}, [0])])"
    loaded = modules_after(f"import framefeed as ff; next(iter(ff.ClipLoader({plan}, batch_size=1, workers=2)))")
    assert not loaded & {f"{PACKAGE}.{room}" for room in ("cache", "encode", "scanning", "transcode")}


# One intruder a contract: module (under framefeed) -> what it imports.
INTRUDERS = {
    "layers": {"media.intruder_layers": "framefeed.load"},
    "cycles": {
        "index.intruder_one": "framefeed.index.intruder_two",
        "index.intruder_two": "framefeed.index.intruder_one",
    },
    "facade": {"media.intruder_facade": "framefeed"},
    "codecs": {"load.intruder_codecs": "av"},
    "frameworks": {"load.intruder_frameworks": "torch"},
    "network": {"load.intruder_network": "urllib3"},
    "pure": {"plan.intruder_pure": "time"},
    # In place of a module that is there: this contract names single modules.
    "remote-pure": {"media.remote._signature": "time"},
    "archives": {"archives.intruder_archives": "tarfile"},
    "load-clock": {"load.intruder_clock": "time"},
    "cache-below-plans": {"cache.intruder_plans": "framefeed.plan"},
    "decode-order": {"decode.intruder_order": "framefeed.parallel._pools"},
    "decode-below-plans": {"decode.intruder_plans": "framefeed.plan"},
    "encode-narrow": {"encode.intruder_narrow": "framefeed.plan"},
    "backends": {
        "decode.backends.intruder_one": "framefeed.decode.backends.intruder_two",
        "decode.backends.intruder_two": "av",
    },
    "adapters": {"adapters.intruder_one": "framefeed.adapters.intruder_two", "adapters.intruder_two": "torch"},
    "compat": {
        "compat.intruder_one": "framefeed.compat.intruder_two",
        "compat.intruder_two": "torchvision",
    },
    "baselines": {
        "bench.baselines.intruder_one": "framefeed.bench.baselines.intruder_two",
        "bench.baselines.intruder_two": "av",
    },
}


def _contract_names() -> dict[str, str]:
    parser = configparser.ConfigParser()
    parser.read(CONTRACTS, encoding="utf-8")
    prefix = "importlinter:contract:"
    return {section.removeprefix(prefix): parser[section]["name"] for section in parser if section.startswith(prefix)}


def test_every_import_contract_catches_its_intruder(tmp_path: Path) -> None:
    shutil.copytree(SRC / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for modules in INTRUDERS.values():
        for module, imported in modules.items():
            path = tmp_path / PACKAGE / Path(*module.split(".")).with_suffix(".py")
            path.write_text(f"import {imported}\n", encoding="utf-8")
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", CONTRACTS, "--no-cache", "--no-logo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
    )
    names = _contract_names()
    kept = [key for key, name in names.items() if f"{name} BROKEN" not in run.stdout]
    assert set(names) == set(INTRUDERS)
    assert not kept, run.stdout + run.stderr


def test_exceptions_name_modules_that_exist() -> None:
    """A stale exception is a hole: once every room is there, a module that is gone leaves its line behind."""
    rooms = {source.room for source in package_sources()}
    modules = {source.module for source in package_sources()}
    stale = {name for name in LOADS_BY_NAME.keys() | BROAD_EXCEPT.keys() if name not in modules}
    assert not {name for name in stale if name.split(".")[1] in rooms}
