"""Scripts as people have them: the names of other libraries, over framefeed's rooms; each is imported by its name."""

from __future__ import annotations

__all__: list[str] = []
