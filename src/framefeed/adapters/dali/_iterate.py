"""Give the outputs of a pipeline as tensors of PyTorch, which is imported here, by name, when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from framefeed._absence import describe_absence
from framefeed._checks import expected
from framefeed.adapters import IGNORED_TARGET, check_target
from framefeed.adapters.dali._pipeline import ClipPipeline
from framefeed.errors import MissingDependency, UsageError

Batch = Any
"""A dict of tensors by name of the output, or (clips, targets)."""


def iterate(pipe: ClipPipeline, target: str | None = None) -> PipelineBatches:
    """Iterate over a pipeline; each iteration is the next epoch.

    Without ``target``, a batch is a dict of tensors by name of the output: clip [B, T, C, H, W], pts_seconds (float64
    [B, T]), position (int64 [B]), ok (bool [B]), and one for each column. With ``target``, it is ``(clips, column)``,
    with a column [B]; the target of a clip that failed is -100, or NaN in a column of floats.

    Tensors are on the device of the pipeline. They share memory with the outputs of DALI, and keep their values.

    Example: ``for clips, labels in ff.dali.iterate(pipe, target="label"): ...``

    Args:
        pipe: From `pipeline`.
        target: Name of a column of numbers, or of text, which becomes codes.

    Raises:
        UsageError: The plan has no such column.
        MissingDependency: PyTorch is not installed.
    """
    if not isinstance(pipe, ClipPipeline):
        raise expected("pipe", "what ff.dali.pipeline returns; iterate over others with DALI's own iterators", pipe)
    if target is not None:
        check_target(pipe.source.loader.plan, target)
        if target not in pipe.output_names:
            raise UsageError(
                f"target: {target!r} is no output of this pipeline, only {', '.join(pipe.output_names)} are"
            )
    try:
        import torch.utils.dlpack
    except ImportError as error:
        raise MissingDependency(
            f"ff.dali.iterate gives tensors of PyTorch, which {describe_absence(error, 'torch')}: "
            "pip install 'framefeed[torch]'"
        ) from error

    names = pipe.output_names  # the pipeline has what converts its outputs, which must not have the pipeline

    def convert(outputs: Iterable[Any]) -> Batch:
        shared = (torch.utils.dlpack.from_dlpack(each.as_tensor()) for each in outputs)
        tensors = dict(zip(names, shared, strict=True))
        failed = ~tensors["ok"]
        if failed.any():
            tensors["clip"][failed] = 0  # not those of mean and std
        if target is None:
            return tensors
        column = tensors[target]
        if column.dtype == torch.bool:
            column = column.to(torch.int64)
        ignored = float("nan") if column.is_floating_point() else IGNORED_TARGET
        return tensors["clip"], column.masked_fill(failed, ignored)

    return PipelineBatches(pipe, convert)


class PipelineBatches:
    """The batches of a pipeline as tensors; `iterate` makes it. Each ``iter()`` ends the iteration before it.

    An iteration that is left before its last batch does not count: the next one begins the epoch again.
    """

    def __init__(self, pipe: ClipPipeline, convert: Callable[[Iterable[Any]], Batch]) -> None:
        self._pipe = pipe
        self._convert = convert

    def __repr__(self) -> str:
        return f"PipelineBatches({self._pipe!r})"

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self._pipe)

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch."""
        return self._pipe.begin_run(self._convert)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, as `ClipLoader.set_epoch` does; an iteration of another epoch ends."""
        self._pipe.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batch that was given last; those that DALI is ahead do not count."""
        return self._pipe.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Begin the next iteration at a saved position, as `ClipLoader.load_state_dict` does.

        Raises:
            UsageError: The state is from another plan.
        """
        self._pipe.load_state_dict(state)
