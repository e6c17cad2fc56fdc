# Needs python >= 3.11 (with venv) and make; everything else goes into .venv. To begin: make demo, or make test.
#   make setup | check | test | test-all | installed | engines | dali | ray | lerobot | vlm | engines-all | sections | media | chaos | demo MEDIA=folder | bench MEDIA=folder | goals | clean | distclean

MEDIA ?=
OUT ?= build/bench.json
export MEDIA OUT

# Another active environment must not leak into this one.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
export PIP_REQUIRE_VIRTUALENV = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
DECLARED := pyproject.toml constraints.txt
# The paths reach the shell as variables, never as text, so that they may hold spaces and quotes.
MEDIA_ARGUMENT = $${MEDIA:+"$$MEDIA"}

.PHONY: setup check test test-all lint types contracts fast tests installed installed-oldest installed-newest engines dali ray lerobot vlm engines-all environments sections media chaos demo bench goals clean distclean
.DEFAULT_GOAL := setup

setup: .venv/.dev
	@echo "All is installed in .venv. Next: make demo, make check or make test; or activate it: . .venv/bin/activate"

# After every edit: all but the slow tests.
check: lint types contracts fast

test:
	@echo "Lint, types, import contracts and all tests: about 10 minutes on two cores, after what is not yet installed"
	$(MAKE) --jobs=3 --output-sync=line lint types contracts tests

# Before each landing, by whoever lands: whole products, and the tests that are marked test_all.
test-all:
	FRAMEFEED_ALL_TESTS=1 $(MAKE) test

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

contracts: .venv/.dev
	$(BIN)/lint-imports --no-cache --no-logo  # its cache has told of imports that were no longer there

# Those marked slow, and those that take long by tests/times.txt, are left out.
fast: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart=0 -m "not slow" $(ARGS)

# Four processes for two cores, because many tests wait. The tests of a file stay in one; files that take long come first,
# not those with many tests (tests/tiers.py). A process that crashes ends the run, which names its test: with another in its
# place, pytest-xdist 3.8 waits for ever at the end.
tests: .venv/.dev
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 $(ARGS)

# The wheel without the checkout: with the oldest dependencies, and with the newest on Python 3.13, where that is there.
installed: installed-oldest installed-newest

installed-oldest installed-newest: installed-%: .venv/.dev
	$(BIN)/python -m tests.installed $*

# Tests that need the other decoders (OpenCV, TorchCodec, decord), and those that need DALI. Each set is installed on top
# of .venv, in an environment of its own: the rest is tested without them, and so are the tools of the exam.
engines: .venv-engines/.engines
	.venv-engines/bin/python -m pytest $(ARGS) --ignore=tests/engines/test_exam.py tests/engines

dali: .venv-dali/.dali
	.venv-dali/bin/python -m pytest $(ARGS) tests/adapters/dali tests/engines -k dali

# Two nodes of a cluster on this machine: installing takes about as long as the tests, which take at most 90 s.
ray: .venv-ray/.ray
	.venv-ray/bin/python -m pytest $(ARGS) tests/adapters/ray

# What lerobot's own reader gives, written again (tests/lerobot/golden.json, and the data sets of its own writer).
lerobot: .venv-lerobot/.lerobot
	$(BIN)/python -m tests.lerobot.make_golden

# What transformers' video processors and qwen-vl-utils compute, compared with tests/golden/vlm.json, and the tests of
# framefeed.vlm beside the installed ones. Not of .ci/run: the environment is 6 GB.
vlm: .venv-vlm/.vlm
	.venv-vlm/bin/python -m tests.vlm.make_golden --check
	.venv-vlm/bin/python -m pytest $(ARGS) tests/vlm

# Every engine over every hard file and over real media (../shared/media, or FRAMEFEED_MEDIA): docs/engines.md. Ten to
# thirty minutes on two cores. ARGS="--jobs 2"; python -m tests.engines.exam --help for some engines and files.
engines-all: .venv-engines/.engines .venv-dali/.dali
	$(BIN)/python -m tests.engines.exam --out docs/engines.md \
	  --results benchmarks/results/engines-$$(date -u +%F).tsv $(ARGS)

# For .ci/run: what has environments of its own, one after the other; Ray's tests come later, alone.
environments:
	$(MAKE) installed-oldest
	$(MAKE) .venv-ray/.ray
	$(MAKE) engines
	$(MAKE) dali
	$(MAKE) installed-newest

# The five write-ups of docs/benchmarks.md, measured again: about half an hour on two cores. ARGS="D --clips 128" for as
# many clips as the write-up has, which takes as long again.
sections: .venv-sections/.sections
	.venv-sections/bin/python -m benchmarks.sections $(ARGS)

# Every frame of real media (../shared/media, or MEDIA=folder), compared with PyAV and with tests/real_media.tsv: about
# two minutes. ARGS="--jobs 2", --resume after a stop, --update to record what a new version of a library gives.
media: .venv/.dev
	$(BIN)/python -m tests.real_media $(MEDIA_ARGUMENT) $(ARGS)

# The long sweeps: worker processes killed and stopped, maps of videos disturbed and continued, their errors in threads and in processes, builders of a cache killed, damaged files in every order, forks, streams that lost packets, each errno at each call, 20,000 clips. Real videos damaged, and read across forks. Damaged streams, indexed in each way.
# And the long form of the tests that are marked so, and those that only this runs (the marker chaos).
chaos: .venv/.dev .venv-ray/.ray .venv-dali/.dali
	$(BIN)/python -m tests.cache.chaos --seeds 200 --log build/chaos.log
	$(BIN)/python -m tests.decode.chaos --variants 300 --forks 200 --log build/chaos_decode.log
	$(BIN)/python -m tests.decode.lost_packets --streams 640 --log build/chaos_lost.log
	$(BIN)/python -m tests.media.chaos --files 1000 --log build/chaos_media.log
	$(BIN)/python -m tests.media.counts --streams 3000 --log build/chaos_counts.log
	$(BIN)/python -m tests.parallel.chaos --seeds 200 --log build/chaos_parallel.log
	$(BIN)/python -m tests.load.chaos --clips 20000 --log build/chaos_load.log
	$(BIN)/python -m tests.load.storms --seeds 200 --log build/chaos_loader.log
	$(BIN)/python -m tests.transcode.storms --seeds 200 --log build/chaos_map.log
	$(BIN)/python -m tests.transcode.agreement --seeds 200 --log build/chaos_map_errors.log
	.venv-ray/bin/python -m tests.adapters.ray.chaos --seeds 20
	FRAMEFEED_LONG_TESTS=1 .venv-ray/bin/python -m pytest tests/adapters/ray -m "long or chaos"
	FRAMEFEED_LONG_TESTS=1 .venv-dali/bin/python -m pytest tests/adapters/dali -m "long or chaos"
	FRAMEFEED_LONG_TESTS=1 $(BIN)/python -m pytest -m "long or chaos" -o timeout=600 -o faulthandler_timeout=700

demo: .venv/.torch
	$(BIN)/framefeed demo $(MEDIA_ARGUMENT)
	@echo "The command is $(BIN)/framefeed; . $(BIN)/activate puts it on PATH"

bench: .venv/.bench
	mkdir -p "$$(dirname "$$OUT")"
	$(BIN)/framefeed bench all $(MEDIA_ARGUMENT) --json "$$OUT"

# Compares benchmarks/results, or RESULTS="a.json b.json", with benchmarks/goals.json.
goals: .venv/.dev
	$(BIN)/python -m benchmarks.goals $(RESULTS)

clean:
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-engines .venv-dali .venv-ray .venv-sections .venv-lerobot .venv-vlm

# --no-compile leaves bytecode to the first import: .ci/run, whose environments are used once, saves half a minute of CPU each.
INSTALL_OPTIONS ?=

# pip is silent for minutes. Times are of two cores, without the download; sizes are with the build of PyTorch for CPUs.
INSTALLING = @echo "Installing $(WHAT) into $(@D); pip is silent unless something fails"

# A stamp a set of extras: redone when what is declared changes.
.venv/.torch: EXTRAS = torch
.venv/.torch: WHAT = framefeed and PyTorch (half a minute, 1.3 GB)
.venv/.dev: EXTRAS = dev,torch
.venv/.dev: WHAT = framefeed, PyTorch, and what the tests need, TensorFlow and JAX with it (two minutes, 3.7 GB)
.venv/.bench: EXTRAS = bench,torch
.venv/.bench: WHAT = framefeed, PyTorch, and the libraries that it is compared with (a minute)
.venv/.torch .venv/.dev .venv/.bench: $(DECLARED) | .venv/bin/python
	$(INSTALLING)
	$(BIN)/python -m pip install -qq $(INSTALL_OPTIONS) --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@ .venv/.torch

# An environment that begins with what .venv has: pip installs only what is missing there.
.venv-engines/.engines: EXTRAS = engines
.venv-dali/.dali: EXTRAS = dali
.venv-ray/.ray: EXTRAS = ray
.venv-sections/.sections: EXTRAS = bench,dali
.venv-engines/.engines .venv-dali/.dali .venv-ray/.ray .venv-sections/.sections: WHAT = $(EXTRAS) (one to two minutes)
.venv-engines/.engines .venv-dali/.dali .venv-ray/.ray .venv-sections/.sections: $(DECLARED) .venv/.dev
	$(INSTALLING)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -c "import pathlib, sysconfig; \
	  base = next(pathlib.Path('.venv').resolve().glob('lib/python*/site-packages')); \
	  pathlib.Path(sysconfig.get_path('purelib'), 'of_dev.pth').write_text(f'import site; site.addsitedir({str(base)!r})\n')"
	$(@D)/bin/python -m pip install -qq $(INSTALL_OPTIONS) --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

# Not on top of .venv: lerobot asks for earlier versions of what is there. It is installed without what it asks for
# (torchvision, opencv, gymnasium, wandb, rerun), beside what its reader and writer import (tests/lerobot/stubs has the rest).
.venv-lerobot/.lerobot: WHAT = lerobot and what its reader imports (two minutes)
.venv-lerobot/.lerobot: tests/lerobot/requirements.txt .venv/.dev
	$(INSTALLING)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -qq --requirement tests/lerobot/requirements.txt
	$(@D)/bin/python -m pip install -qq --no-deps lerobot==0.4.4
	touch $@

# Not on top of .venv either: it asks for another torch.
.venv-vlm/.vlm: WHAT = transformers, qwen-vl-utils, and framefeed (five minutes, 6 GB with a build of torch for GPUs)
.venv-vlm/.vlm: tests/vlm/requirements.txt pyproject.toml | .venv/bin/python
	$(INSTALLING)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -qq --requirement tests/vlm/requirements.txt --editable .
	touch $@

# The first that runs and is new enough: a shim of a version manager may be on PATH and still refuse to start.
.venv/bin/python:
	@for python in $(PYTHON) python3.11 python3 python3.12 python3.13 python3.14; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making the virtual environment .venv with $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear .venv; \
	  fi; \
	done; \
	echo "framefeed needs python >= 3.11 with its venv module; name one with: make PYTHON=/path/to/python" >&2; \
	exit 1
