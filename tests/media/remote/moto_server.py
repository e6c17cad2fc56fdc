"""Run as a program: moto's S3 server on a free port, which it says; it ends as its standard input does.

It has a bucket "many" with 1,200 keys ``x/0000`` to ``x/1199`` of two bytes, which take 6 seconds to send. A request
for the path that is its argument removes all other objects and buckets.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server


def fill() -> None:
    backend = s3_backends["123456789012"]["aws"]
    backend.reset()
    backend.create_bucket("many", "us-east-1")
    for number in range(1200):
        backend.put_object("many", f"x/{number:04}", b"12")


def main() -> None:
    moto = DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != sys.argv[1]:
            return moto(environ, start_response)  # type: ignore[no-any-return,no-untyped-call]
        fill()
        start_response("200 OK", [("Content-Length", "0")])
        return []

    fill()
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()
    os._exit(0)  # requests that hang are not waited for


if __name__ == "__main__":
    main()
