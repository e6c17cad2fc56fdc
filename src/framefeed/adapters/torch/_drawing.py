"""Let torch's random functions draw from a seed of one item, also in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def _find_random_functions() -> frozenset[Any]:
    functions = [
        "_sample_dirichlet _standard_gamma bernoulli binomial multinomial normal poisson rand randint randn randperm",
        "rand_like randint_like randn_like",
    ]
    methods = "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_"
    always, newer = ([getattr(torch, name) for name in names.split()] for names in functions)
    # The last ones take a generator in newer versions of torch only, as their documentation says.
    newer = [function for function in newer if "generator" in str(function.__doc__)]
    return frozenset([*always, *newer, *(getattr(torch.Tensor, name) for name in methods.split())])


_RANDOM_FUNCTIONS = _find_random_functions()


class DrawingFrom(TorchFunctionMode):
    """Gives a generator to the random functions that this thread calls without one, for tensors on the CPU."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _RANDOM_FUNCTIONS and kwargs.get("generator") is None and _is_on_cpu(args, kwargs):
            kwargs = {**kwargs, "generator": self._generator}
        return func(*args, **kwargs)


def _is_on_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is None:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        device = tensors[0].device if tensors else torch.get_default_device()
    return torch.device(device).type == "cpu"


@contextmanager
def seeding_torch(seed: int) -> Iterator[None]:
    """Seed torch's generators in the block, and restore them afterwards."""
    # Devices that are not in use yet are not seeded: that would start them, or change how they start.
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if in_use else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield


def drawing_from(seed: int) -> AbstractContextManager[object]:
    """Return a context in which torch's random functions give the same numbers for a seed, in any thread."""
    # Torch's generators belong to the training loop while threads load.
    is_alone = threading.current_thread() is threading.main_thread()
    return seeding_torch(seed) if is_alone else DrawingFrom(seed)
