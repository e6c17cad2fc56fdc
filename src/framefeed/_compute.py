"""Arrow's functions, ``pyarrow.compute``, imported at the first use of one.

The import takes 40 ms, a quarter of what NumPy, Arrow and PyAV take together without it, and a loop over a catalog that
is ready calls none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Compute:
        def __getattr__(self, name: str) -> Any:
            import pyarrow.compute

            return getattr(pyarrow.compute, name)

    pc = _Compute()

__all__ = ["pc"]
