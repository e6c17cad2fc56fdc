"""Save how far a data loader has come, and continue there: delivered batches count, prefetched ones do not.

The state has the generators as they were when the epoch began, and the number of delivered batches. To resume, the
sampler draws the epoch again and skips so many batches; a sampler with ``state_dict`` continues without that.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

from framefeed.adapters.torch._randomness import Randomness, States
from framefeed.errors import UsageError

VERSION = 1
Epochs = dict[str, int]
"""Epochs of the samplers and the data set of a loader, by what they are."""


def is_stateful(item: object) -> bool:
    """Whether an object has ``state_dict`` and ``load_state_dict``."""
    return callable(getattr(item, "state_dict", None)) and callable(getattr(item, "load_state_dict", None))


def find_epochs(owners: Mapping[str, Any]) -> Epochs:
    """Return the epochs of those objects that have one, and ``set_epoch``, such as torch's DistributedSampler."""
    with_epoch = {name: owner for name, owner in owners.items() if callable(getattr(owner, "set_epoch", None))}
    epochs = {name: getattr(owner, "epoch", None) for name, owner in with_epoch.items()}
    return {name: epoch for name, epoch in epochs.items() if isinstance(epoch, int)}


@dataclass
class Progress:
    """How far one iteration has come."""

    # States of the generators that its sampler drew from, as they were when it began.
    begun: States = field(default_factory=dict)
    # The same, as they were before the first index. Without workers, others may have drawn in between.
    drawn: States = field(default_factory=dict)
    skipped: int = 0  # batches that were delivered before it was resumed
    delivered: int = 0  # batches of the epoch that were delivered, those skipped included
    is_finished: bool = False
    # States of the sampler after a number of batches, of which the first comes before the last delivered batch.
    sampler_states: deque[tuple[int, Any]] = field(default_factory=deque)
    dataset_state: Any = None  # after the last delivered batch, if the data set has one
    is_resumed: bool = False
    epochs: Epochs = field(default_factory=dict)
    has_workers: bool = False  # whether workers stay from an earlier iteration; torch then draws no seed for them
    # States of the generators before a seed was drawn for the workers, if they stay.
    unseeded: States = field(default_factory=dict)

    def deliver(self, consumed: int) -> None:
        """Count the batches that this iteration delivered, those that failed included."""
        self.delivered = self.skipped + consumed
        # Not the state after the last delivered batch: at the end of an epoch, a sampler may have begun the next one.
        while len(self.sampler_states) > 1 and self.sampler_states[1][0] < self.delivered:
            self.sampler_states.popleft()


@dataclass(frozen=True)
class SavedState:
    """The contents of a loader's state: JSON if the states of sampler and data set are."""

    batches: int | None  # number of delivered batches of the epoch; None if it is finished
    randomness: States  # states of generators, as they are to be when the iteration begins
    sampler: list[Any] | None  # number of batches and the state of the sampler after them; None if it has no state
    dataset: Any
    drawn: States = field(default_factory=dict)  # as of `Progress`
    epochs: Epochs = field(default_factory=dict)  # as of `Progress`; none if the epoch is finished
    version: int = VERSION

    @classmethod
    def load(cls, state: Mapping[str, Any], form: Mapping[str, Any]) -> SavedState:
        """Check a state: it is of this class, and of a loader of this form."""
        if not isinstance(state, Mapping) or "randomness" not in state or state.get("version") != VERSION:
            raise UsageError("this is no state of an ff.torch.DataLoader of this version: load one of its state_dict()")
        for name, value in form.items():
            if state.get(name) != value:
                raise UsageError(
                    f"the state is of a loader with {name}={state.get(name)!r}, and this one has {value!r}: make the "
                    "loader with the arguments that it had when the state was saved; num_workers may differ"
                )
        return cls(**{each.name: state[each.name] for each in fields(cls) if each.name in state})


class TrackedSampler:
    """Draws the indices of a loader, saves the state of its sampler after every so many batches, and resumes."""

    def __init__(self, sampler: Any, every: int) -> None:
        self._sampler = sampler
        self._every = every
        self._randomness = Randomness({})
        self._progress = Progress()
        self._saved: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        # At once, as torch does: a sampler may draw when it begins. Torch begins it twice if there are workers.
        drawn = iter(self._sampler)
        if self._progress.has_workers:
            self._progress.unseeded = self._randomness.dump()
        return self._draw(drawn, self._progress, self._saved)

    def begin(self, randomness: Randomness, progress: Progress, saved: Sequence[Any] | None) -> None:
        """Let the next iteration be that of this progress, which continues from a saved state of the sampler."""
        self._randomness, self._progress, self._saved = randomness, progress, saved

    def dump(self, progress: Progress | None) -> list[Any] | None:
        """Return a number of batches, and the state of the sampler after them; None if it has none."""
        if progress is not None and progress.sampler_states:
            return list(progress.sampler_states[0])
        owner: Any = next((each for each in (self._sampler, self._inner) if is_stateful(each)), None)
        return None if owner is None else [0, copy.deepcopy(owner.state_dict())]

    def finish(self, saved: Sequence[Any] | None) -> None:
        """Let the sampler reach the end of an epoch, from a saved state of it."""
        if saved is not None:
            deque(self._draw(iter(self._sampler), Progress(skipped=saved[0]), saved), maxlen=0)

    @property
    def _inner(self) -> object:
        return getattr(self._sampler, "sampler", None)

    def _draw(self, drawn: Iterator[Any], progress: Progress, saved: Sequence[Any] | None) -> Iterator[Any]:
        owner: Any = next((each for each in (self._sampler, drawn, self._inner) if is_stateful(each)), None)
        count = skipped = progress.skipped
        if owner is not None and saved is not None:
            owner.load_state_dict(saved[1])
            drawn = drawn if owner is drawn else iter(self._sampler)
            skipped = count - saved[0]
        if owner is not None:
            progress.sampler_states.append((count - skipped, copy.deepcopy(owner.state_dict())))
        self._randomness.load(progress.drawn)
        before = self._randomness.dump() if count == 0 else {}
        next(islice(drawn, skipped, skipped), None)
        for index in drawn:
            if count == 0:
                progress.begun = self._randomness.find_changed(progress.begun)
                progress.drawn = self._randomness.find_changed(before)
            count += 1
            if owner is not None and count % self._every == 0:
                progress.sampler_states.append((count, copy.deepcopy(owner.state_dict())))
            yield index
