"""DALI's proxy where PyTorch has no CUDA: its server marks its steps for a profiler that is missing there."""

WITHOUT_PROFILER = """
from types import SimpleNamespace

from nvidia.dali.plugin.pytorch.experimental import proxy

proxy._nvtx = SimpleNamespace(range_push=lambda text: None, range_pop=lambda: None)
"""
