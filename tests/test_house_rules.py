"""The house rules hold in src, and each of them can fail."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import (
    BROAD_EXCEPT,
    LOADS_BY_NAME,
    MAX_BODY_LINES,
    MAX_MODULE_LINES,
    MAX_PARAMETERS,
    PACKAGE,
    RULES,
    SRC,
    Source,
    heavy_modules_after,
    package_sources,
)

CONTRACTS = SRC.parent / ".importlinter"

WRONG = [
    ("module size", "media.info", "x = 1\n" * (MAX_MODULE_LINES + 1)),
    ("body size", "media.info", "def f() -> None:\n" + "    x = 1\n" * (MAX_BODY_LINES + 1)),
    ("body size", "media.info", "class C:\n    def f(self) -> None:\n" + "        x = 1\n" * (MAX_BODY_LINES + 1)),
    ("parameter count", "media.info", f"def f({', '.join(f'p{i}: int' for i in range(MAX_PARAMETERS + 1))}): ..."),
    ("parameter count", "media.info", f"def scan({', '.join(f'p{i}: int' for i in range(MAX_PARAMETERS + 1))}): ..."),
    ("annotations", "media.info", "def f(x) -> None: ..."),
    ("annotations", "media.info", "def f(*, x: int, **rest) -> None: ..."),
    ("annotations", "media.info", "def f(x: int): ..."),
    ("annotations", "media.info", "class C:\n    async def f(self, x) -> None: ..."),
    ("unsafe calls", "cache.store", "import pickle"),
    ("unsafe calls", "cache.store", "from pickle import loads"),
    ("unsafe calls", "cache.store", "import marshal as quick"),
    ("unsafe calls", "cache.store", "import shelve"),
    ("unsafe calls", "cli.demo", "eval('1')"),
    ("unsafe calls", "cli.demo", "exec('1')"),
    ("unsafe calls", "cli.demo", "import subprocess\nsubprocess.run('ls', shell=True)"),
    ("unsafe calls", "cache.store", "import numpy as np\nnp.load('x', allow_pickle=True)"),
    ("unsafe calls", "cache.store", "import numpy as np\nnp.load('x', allow_pickle=trusted)"),
    ("global generator", "plan.order", "import numpy as np\nnp.random.seed(0)"),
    ("global generator", "plan.order", "import numpy as np\nnp.random.default_rng()"),
    ("global generator", "plan.order", "import numpy as np\nnp.random.default_rng(7)"),
    ("global generator", "testing.stamps", "import numpy as np\nnp.random.default_rng()"),
    ("global generator", "plan.order", "from numpy import random\nrandom.shuffle([1])"),
    ("global generator", "plan.order", "from numpy.random import rand\nrand()"),
    ("global generator", "bench.workloads", "import random\nrandom.shuffle([1])"),
    ("lazy imports", "media.info", "def f() -> None:\n    from framefeed.index import build"),
    ("lazy imports", "media.info", "def f() -> None:\n    import framefeed.index"),
    ("lazy imports", "media.info", "def f() -> None:\n    from . import container"),
    ("lazy imports", "media.info", "import importlib\nimportlib.import_module('framefeed.index')"),
    ("lazy imports", "media.info", "from importlib import import_module as find\nfind('framefeed.index')"),
    ("broad except", "media.info", "try:\n    pass\nexcept Exception:\n    pass"),
    ("broad except", "media.info", "try:\n    pass\nexcept:\n    pass"),
    ("broad except", "media.info", "try:\n    pass\nexcept (OSError, BaseException) as error:\n    print(error)"),
    ("broad except", "media.info", "import contextlib\nwith contextlib.suppress(Exception):\n    pass"),
    ("broad except", "parallel.outcome", "try:\n    pass\nexcept Exception:\n    pass\n" * 2),
    ("starts workers", "load.loader", "import threading\nthreading.Thread(target=print).start()"),
    ("starts workers", "load.loader", "from threading import Thread as Helper\nHelper(target=print).start()"),
    ("starts workers", "load.loader", "import threading\nclass Helper(threading.Thread): ..."),
    ("starts workers", "load.loader", "import multiprocessing as mp\nmp.get_context('spawn').Process()"),
    ("starts workers", "load.loader", "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2)"),
    ("starts workers", "load.loader", "import os\nos.fork()"),
    ("one framework", "adapters.jax", "import torch\nimport jax.numpy as jnp"),
    ("private modules", "bench.measure", "from framefeed.media._boxes import moov"),
    ("private modules", "cli.scan", "from framefeed.media import _boxes"),
    ("plain words", "media.info", "# Nobody knows.\nx = 1"),
    ("plain words", "media.info", 'def f() -> None:\n    """Let go of it, whoever asks."""'),
]

RIGHT = [
    ("body size", "media.info", 'def f() -> None:\n    """' + "Long.\n" * 80 + '    """\n    return None'),
    ("parameter count", "index.scanning", f"def scan({', '.join(f'p{i}: int' for i in range(12))}) -> None: ..."),
    ("parameter count", "media.info", "class C:\n    def f(self, a: int, b: int, c: int, d: int, e: int, g: int): ..."),
    ("unsafe calls", "cache.store", "import numpy as np\nnp.load('x', allow_pickle=False)"),
    ("unsafe calls", "parallel.processes", "import pickle"),
    ("global generator", "plan.order", "import numpy as np\nnp.random.Generator(np.random.Philox(key=7)).integers(9)"),
    ("global generator", "testing.stamps", "import numpy as np\nnp.random.default_rng(7).integers(9)"),
    ("lazy imports", "", "def __getattr__(name: str) -> object:\n    from framefeed.adapters import torch"),
    ("lazy imports", "decode.registry", "import importlib\nimportlib.import_module(name)"),
    ("broad except", "media.info", "try:\n    pass\nexcept BaseException:\n    close()\n    raise"),
    ("broad except", "parallel.outcome", "try:\n    pass\nexcept Exception:\n    pass"),
    ("starts workers", "load.buffers", "import threading\nlock = threading.Lock()\nlocal = threading.local()"),
    ("starts workers", "decode.frames", "import threading\nclass Pool: ...\npool = Pool()"),
    ("starts workers", "parallel.pools", "import threading\nthreading.Thread(target=print)"),
    ("private modules", "cli.scan", "from framefeed.cli._options import parser"),
    ("plain words", "media.info", "outlet_gone = 1  # unknown"),
    ("private modules", "load.loader", "from framefeed.decode._errors import translate"),
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


@pytest.mark.parametrize(("rule", "module", "text"), RIGHT)
def test_rule_lets_pass(rule: str, module: str, text: str) -> None:
    assert RULES[rule](Source(_module(module), text)) == []


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, _, _ in WRONG} == set(RULES)


def test_rules_see_the_whole_package() -> None:
    modules = {source.module for source in package_sources()}
    assert {PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.errors"} <= modules


def test_import_brings_no_framework_along() -> None:
    assert heavy_modules_after(f"import {PACKAGE}") == []


def test_frameworks_brought_along_are_seen() -> None:
    assert heavy_modules_after("import sys; sys.modules['torch'] = sys") == ["torch"]


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
    "pure": {"plan.intruder_pure": "time"},
    "load-clock": {"load.intruder_clock": "time"},
    "decode-order": {"decode.intruder_order": "framefeed.parallel.pools"},
    "encode-narrow": {"encode.intruder_narrow": "framefeed.plan"},
    "backends": {
        "decode.backends.intruder_one": "framefeed.decode.backends.intruder_two",
        "decode.backends.intruder_two": "av",
    },
    "adapters": {"adapters.intruder_one": "framefeed.adapters.intruder_two", "adapters.intruder_two": "torch"},
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
        timeout=60,
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
