"""Collate rows of a dataset to tensors and lists of text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from ray.data.collate_fn import ArrowBatchCollateFn, DefaultCollateFn


class Collate(ArrowBatchCollateFn):  # type: ignore[misc]  # mypy runs without Ray
    """Makes tensors of columns of numbers, and lists of columns of text.

    Ray's own collation refuses text, and its tensors are views of the object store, so that writing to them changes
    what a materialized dataset has. These tensors are copies, and the caller's own.
    """

    def __call__(self, batch: pa.Table) -> dict[str, Any]:
        """Collate a batch; None in a column of text is a missing one."""
        texts = {name for name in batch.column_names if _is_text(batch.schema.field(name).type)}
        numbers = [name for name in batch.column_names if name not in texts]
        tensors: Any = DefaultCollateFn()(batch.select(numbers).combine_chunks())
        each = {name: _copy(value) for name, value in tensors.items()}
        return {name: batch.column(name).to_pylist() if name in texts else each[name] for name in batch.column_names}

    def __repr__(self) -> str:
        return "framefeed.ray.collate"


def _is_text(kind: pa.DataType) -> bool:
    return any((pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_null(kind)))


def _copy(value: Any) -> object:
    """Copy a tensor, or the only one of a list of a tensor for each chunk."""
    (tensor,) = value if isinstance(value, list | tuple) else [value]
    return tensor.clone()


collate = Collate()
"""Give it to ``iter_torch_batches(collate_fn=...)`` of a dataset with text."""
