"""Stack: the results of a transform as one array, copied there by the workers that made them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.load.buffers import BufferPool

Array = npt.NDArray[Any]
Form = tuple[tuple[int, ...], np.dtype[Any]]


class Stack:
    """One array [B, ...] whose form the first result tells, whichever clip it is of.

    Which result comes first is a matter of chance, what is delivered must not be: results of another form are set
    aside, and ``finish`` decides by the order of the clips.

    Args:
        count: B.
        pool: Lends the memory.
    """

    def __init__(self, count: int, pool: BufferPool) -> None:
        self._count = count
        self._pool = pool
        self._array: Array | None = None
        self._aside: dict[int, Array] = {}
        self._begin = threading.Lock()

    def put(self, place: int, result: Array) -> None:
        """Copy the result of one clip; called by workers, each for places of its own."""
        with self._begin:
            if self._array is None:
                self._array = self._lease(_form(result))
        if _form(result) == _form(self._array[0]):
            self._array[place] = result
        else:
            self._aside[place] = result

    def finish(self, places: list[int]) -> tuple[Array | None, list[int]]:
        """Give the array, in the form of the first of some places, and those of them whose results have another.

        Args:
            places: Those that have a result, ascending. The others are zeros.
        """
        if not places or self._array is None:
            return None, []
        forms = {place: _form(self._aside.get(place, self._array[0])) for place in places}
        form = forms[places[0]]
        misfits = [place for place in places if forms[place] != form]
        array = self._array
        if form != _form(array[0]):
            array = self._lease(form)
            for place in places:
                if place not in misfits:
                    array[place] = self._aside[place]
        for place in set(range(self._count)).difference(places).union(misfits):
            array[place] = 0
        return array, misfits

    def zeros(self, like: Array) -> Array:
        """Make an array of zeros [B, ...] for results of a form."""
        array = self._lease(_form(like))
        array[...] = 0
        return array

    def _lease(self, form: Form) -> Array:
        shape, dtype = form
        return self._pool.lease((self._count, *shape), dtype)


def _form(result: Array) -> Form:
    return result.shape, result.dtype
