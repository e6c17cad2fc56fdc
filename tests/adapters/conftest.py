"""Shared by the tests of the adapters."""

from __future__ import annotations

import multiprocessing

# The server imports it once; otherwise each worker that it forks takes two seconds for it.
multiprocessing.set_forkserver_preload(["torch"])
