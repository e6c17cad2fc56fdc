"""How long a test waits for what must come: long enough for a machine under heavy load."""

from __future__ import annotations

PATIENCE_SECONDS = 30.0
