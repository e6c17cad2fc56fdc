"""Failed files, listed."""

from __future__ import annotations

from collections.abc import Sequence

from framefeed.cli.printing import complain
from framefeed.index.catalog import Catalog

SHOWN = 100
"""More lines than this help nobody who reads; the catalog and ``--json`` have them all."""

Failed = tuple[str, str, str]
"""Source, error type, message."""


def complain_of_failed(catalog: Catalog) -> None:
    """List the rows of a catalog that failed on standard error, one line each."""
    list_failed(catalog.failures)


def list_failed(failures: Sequence[Failed]) -> None:
    """List failures on standard error, one line each."""
    if not failures:
        return
    lines = [f"failed: {_described(failure)}" for failure in failures[:SHOWN]]
    rest = len(failures) - len(lines)
    complain(*lines, *([f"failed: {rest:,} more, not shown"] if rest else []))


def failed_as_json(catalog: Catalog) -> list[dict[str, str]]:
    """The failed rows of a catalog for ``--json``."""
    return [{"source": source, "error_type": kind, "error": error} for source, kind, error in catalog.failures]


def _described(failure: Failed) -> str:
    source, kind, message = failure
    # Most messages begin with the name; where they do not, it is put first. Stored messages are escaped names.
    told = message.removeprefix(f"{source}: ")
    return f"{source}: {told} ({kind})"
