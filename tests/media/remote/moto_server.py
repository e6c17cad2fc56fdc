"""Run as a program: moto's S3 server on a free port, which it says; it ends as its standard input does.

It has a bucket "many" with 2,500 keys ``x/0000`` to ``x/2499`` of two bytes, which take 12 seconds to send.
"""

from __future__ import annotations

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server


def main() -> None:
    backend = s3_backends["123456789012"]["aws"]
    backend.create_bucket("many", "us-east-1")
    for number in range(2500):
        backend.put_object("many", f"x/{number:04}", b"12")
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()
    os._exit(0)  # requests that hang are not waited for


if __name__ == "__main__":
    main()
