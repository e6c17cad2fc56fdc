"""Program that scans beside others, in children that it forks: to import framefeed takes longer than the scan.

Standard input is a socket. Each message on it is a JSON document of settings, with the three standard streams of a
child, whose process number is the answer. The child's last line is a JSON document of results. Nothing starts a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from typing import Any

from framefeed.scanning import _chunks, _journal, _resuming, _scan
from framefeed.scanning._scan import scan


def main(settings: dict[str, Any]) -> dict[str, Any]:
    """Scan; with "stops", it stops when its first chunk is in the journal, until standard input ends."""
    _journal.WRITE_SECONDS = _journal.SHOWN_SECONDS = 0.0
    _chunks.CHUNK_WEIGHT = settings["files_of_a_chunk"] or _chunks.CHUNK_WEIGHT
    surveyed = list[int]()
    survey_chunks = _resuming.survey_chunks

    def survey_and_hold(chunks: Any, *arguments: Any, **options: Any) -> Any:
        for result in survey_chunks(chunks, *arguments, **options):
            surveyed.append(len(result))
            yield result
            if settings["stops"] and len(surveyed) == 1:
                print(f"surveyed {len(result)}", flush=True)
                sys.stdin.read()

    _resuming.survey_chunks = survey_and_hold
    try:
        catalog = scan(settings["folder"], out=settings["out"], workers=0, **settings["options"])
    except KeyboardInterrupt:
        return {"interrupted": True}
    except _scan.UsageError as error:
        return {"error": str(error)}
    table = hashlib.sha256(repr(catalog.table.to_pylist()).encode()).hexdigest()
    return {"rows": len(catalog), "fingerprint": catalog.fingerprint, "table": table, "surveyed": sum(surveyed)}


def serve(messages: socket.socket) -> None:
    """Fork a scan for each message; none is waited for, so that numbers of those that ended are not given again."""
    while True:
        message, streams, *_ = socket.recv_fds(messages, 2**16, 3)
        if not message:
            return
        if not (child := os.fork()):
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            print(json.dumps(main(json.loads(message))), flush=True)
            os._exit(0)
        for stream in streams:
            os.close(stream)
        messages.send(b"%d" % child)


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
