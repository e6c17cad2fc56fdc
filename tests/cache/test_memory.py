"""MemoryTier: a dictionary of bounded weight that forgets what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.memory import Held, MemoryTier
from framefeed.cache.stored import Kind

KIND = Kind("raw", "rgbp 1x1 2 0 p 0")
OVERHEAD = 400
steps = st.lists(
    st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 5), st.integers(0, 700)), max_size=60
)


@given(steps, st.integers(0, 4000))
def test_it_is_the_obvious_dictionary(script: list[tuple[str, int, int]], budget: int) -> None:
    tier, model = MemoryTier(budget), OrderedDict[int, bytes]()
    for what, number, size in script:
        if what == "put":
            tier.put(b"k", number, Held(KIND, bytes(size), 1, 2))
            if size + OVERHEAD <= budget:
                model.pop(number, None)
                model[number] = bytes(size)
                while sum(len(data) + OVERHEAD for data in model.values()) > budget:
                    model.popitem(last=False)
        elif what == "drop":
            tier.drop(b"k", number)
            model.pop(number, None)
        else:
            (held,) = tier.get(b"k", [number])
            assert (None if held is None else held.data) == model.get(number)
            if number in model:
                model.move_to_end(number)
        assert len(tier) == len(model)
        assert tier.nbytes == sum(len(data) + OVERHEAD for data in model.values()) <= budget
    assert tier.get(b"other", list(model)) == [None] * len(model)
    tier.clear()
    assert (len(tier), tier.nbytes) == (0, 0)
