"""An nginx of our own that delays every request and limits every connection, and what it was asked for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from urllib.request import ProxyHandler, build_opener

from framefeed.errors import MissingMedia

Result = TypeVar("Result")

DELAY_SECONDS = 0.02
"""Of each request, before it is answered."""
BYTES_A_SECOND = 50 * 2**20
"""Of each connection; nginx's "50m"."""
# Behind each piece nginx waits as long as the piece may take, in whole milliseconds: 5 here. Its own pieces are 2 MB,
# and the last one of an answer comes without a wait.
_PIECE = BYTES_A_SECOND // 200
_ECHO = Path("/usr/lib/nginx/modules/ngx_http_echo_module.so")
_STOP_SECONDS = 20
_CONFIGURATION = """
daemon off;
{user}
worker_processes 1;
load_module {echo};
pid {folder}/pid;
error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
  log_format asked escape=json
    '{{"method":"$request_method","url":"$request_uri","status":$status,"bytes":$body_bytes_sent,"range":"$http_range"}}';
  access_log {folder}/asked asked;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  sendfile on;
  sendfile_max_chunk {piece};
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port};
    location /mark/ {{ return 204; }}
    location / {{ echo_sleep {delay}; echo_exec @files; }}
    location @files {{ root {root}; limit_rate {rate}; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the server answered: bytes of the body alone, and the header ``Range``."""

    method: str
    url: str
    status: int
    bytes: int
    range: str


class Server:
    """A running nginx, whose log has one line of JSON for each answer."""

    def __init__(self, port: int, log: Path) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._log = log
        self._marks = 0
        self._at = 0

    def url(self, name: str) -> str:
        """The URL of a file below the root."""
        return f"{self._base}/{name}"

    def count(self, work: Callable[[], Result]) -> tuple[Result, list[Asked]]:
        """Do some work, and list the GET and HEAD requests that the server answered meanwhile."""
        self.read()
        result = work()
        return result, self.read()

    def read(self) -> list[Asked]:
        """List the requests since the last call."""
        # One worker answers everything and writes its log in order: what came before the mark is there.
        self._marks += 1
        mark = f"/mark/{self._marks}"
        with build_opener(ProxyHandler({})).open(self._base + mark, timeout=_STOP_SECONDS):
            pass
        asked = []
        with self._log.open(encoding="utf-8") as lines:
            lines.seek(self._at)
            while line := lines.readline():
                asked.append(Asked(**json.loads(line)))
            self._at = lines.tell()
        return [each for each in asked if not each.url.startswith("/mark/")]


def check_nginx() -> str:
    """Find nginx and its module."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None or not _ECHO.is_file():
        raise MissingMedia("it needs nginx and its module echo: apt-get install nginx-light libnginx-mod-http-echo")
    return program


@contextmanager
def serving(root: Path, *, delay_seconds: float = DELAY_SECONDS, rate: int = BYTES_A_SECOND) -> Iterator[Server]:
    """Serve a folder until the block ends; nothing is left of the server."""
    program = check_nginx()
    with TemporaryDirectory(prefix="framefeed-nginx-") as name, socket.create_server(("127.0.0.1", 0)) as listening:
        folder, port = Path(name), listening.getsockname()[1]
        configuration = folder / "nginx.conf"
        text = _CONFIGURATION.format(
            # Else its worker is a user who may not read the folder.
            user="user root;" if os.geteuid() == 0 else "",
            echo=_ECHO, folder=folder, root=root.resolve(), port=port, delay=delay_seconds, rate=rate, piece=_PIECE,
        )  # fmt: skip
        configuration.write_text(text, encoding="utf-8")
        # The socket is open before it starts: no other program takes the port, and no request comes too early.
        descriptor = listening.fileno()
        server = subprocess.Popen(
            [program, "-e", str(folder / "errors"), "-c", str(configuration), "-p", str(folder)],
            env={**os.environ, "NGINX": f"{descriptor};"}, pass_fds=[descriptor],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        listening.close()
        try:
            running = Server(port, folder / "asked")
            try:
                running.read()
            except OSError as error:
                errors = (folder / "errors").read_text(encoding="utf-8", errors="replace")
                raise MissingMedia(f"nginx did not start: {errors.strip() or error}") from error
            yield running
        finally:
            server.terminate()
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
