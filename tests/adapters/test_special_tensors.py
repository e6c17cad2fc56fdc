"""ff.torch.DataLoader delivers tensors of every layout and class as torch's DataLoader does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader

from framefeed.adapters.torch import DataLoader
from framefeed.adapters.torch._pool_iterator import MOST_BYTES, measure_bytes, weigh_batch

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
]


class Reserved(torch.Tensor):
    """A tensor that answers nothing but what it must."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError("not for framefeed")


def eye(number: int) -> torch.Tensor:
    return torch.eye(300) * (number + 1)


def make_nested(number: int, layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([eye(number), eye(number)[1:]], layout=layout)


KINDS: dict[str, Callable[[int], torch.Tensor]] = {
    "COO": lambda number: eye(number).to_sparse(),
    "COO with repeats": lambda number: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, number], (3, 3)),
    "CSR": lambda number: eye(number).to_sparse_csr(),
    "CSC": lambda number: eye(number).to_sparse_csc(),
    "BSR": lambda number: eye(number).to_sparse_bsr((2, 2)),
    "BSC": lambda number: eye(number).to_sparse_bsc((2, 2)),
    "nested": lambda number: make_nested(number, torch.strided),
    "jagged": lambda number: make_nested(number, torch.jagged),
    "quantized": lambda number: torch.quantize_per_tensor(eye(number), 0.1, 0, torch.quint8),
    "complex": lambda number: eye(number).to(torch.complex64),
    "conjugate": lambda number: (eye(number) * 1j).conj(),
    "negative view": lambda number: (eye(number) * 1j).conj().imag,
    "meta": lambda number: eye(number).to("meta"),
    "parameter": lambda number: torch.nn.Parameter(eye(number)),
    "with gradient": lambda number: eye(number).requires_grad_(),
    "expanded": lambda number: torch.tensor(number).expand(300, 300),
    "float8": lambda number: eye(number).to(torch.float8_e4m3fn),
    "oneDNN": lambda number: eye(number).to_mkldnn(),
    "subclass": lambda number: eye(number).as_subclass(Reserved),
}


def take_first(batch: list[Any]) -> Any:
    return batch[0]


def describe(tensor: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        parts = list(tensor.unbind()) if tensor.is_nested else [tensor]
        return type(tensor), tensor.layout, tensor.requires_grad, [repr(part) for part in parts]


def load(kind: type[Any], items: list[Any], **options: Any) -> Any:
    """What a loader delivers, or its error."""
    try:
        return [describe(batch) for batch in kind(items, **options)]
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


@pytest.mark.parametrize("name", KINDS)
def test_tensors_of_every_kind_are_delivered_as_torch_delivers_them(name: str) -> None:
    items = [KINDS[name](number) for number in range(6)]
    for options in ({"batch_size": None}, {"batch_size": 3, "collate_fn": take_first}, {"batch_size": 3}):
        expected = load(TorchDataLoader, items, **options)
        assert load(DataLoader, items, **options) == expected
        assert load(DataLoader, items, num_workers=2, **options) == expected
        assert isinstance(expected, list) or "collate_fn" not in options


def test_bytes_of_a_sparse_tensor_are_not_known() -> None:
    # Not the 40 GB of a dense one, for which each batch would wait for the one before it.
    rows, columns, values = torch.arange(100_001).clamp(max=1), torch.tensor([0]), torch.tensor([1.0])
    batch = torch.sparse_csr_tensor(rows, columns, values, (100_000, 100_000), check_invariants=True)
    assert measure_bytes([batch, torch.eye(2).to_sparse()]) is None
    assert weigh_batch(4, (batch, None)) == MOST_BYTES // 4


def test_bytes_of_other_tensors_are_known() -> None:
    assert measure_bytes(eye(0).as_subclass(Reserved)) == 300 * 300 * 4
    assert measure_bytes(make_nested(0, torch.jagged)) == (300 + 299) * 300 * 4
