"""Scripts as people have them: other libraries' names over framefeed's decoders, none of which imports that library."""

from __future__ import annotations

__all__: list[str] = []
