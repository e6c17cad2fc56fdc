"""Program that scans beside others: a JSON document of settings as argument, one of results as last line."""

from __future__ import annotations

import json
import sys
from typing import Any

from framefeed.scanning import _journal, _resuming, _scan
from framefeed.scanning._scan import scan


def main(settings: dict[str, Any]) -> dict[str, Any]:
    """Scan; with "holds", the scan stops with its results in the journal until standard input ends."""
    _journal.WRITE_SECONDS = 0.0
    surveyed = []
    survey_chunks = _resuming.survey_chunks

    def survey_and_hold(chunks: Any, *arguments: Any, **options: Any) -> Any:
        for result in survey_chunks(chunks, *arguments, **options):
            surveyed.append(len(result))
            yield result
        if settings["holds"]:
            print("scanned", flush=True)
            sys.stdin.read()

    _resuming.survey_chunks = survey_and_hold
    try:
        catalog = scan(settings["folder"], out=settings["out"], workers=0, **settings["options"])
    except KeyboardInterrupt:
        return {"interrupted": True}
    except _scan.UsageError as error:
        return {"error": str(error)}
    return {"rows": len(catalog), "fingerprint": catalog.fingerprint, "surveyed": sum(surveyed)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
