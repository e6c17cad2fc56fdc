"""A store of objects for tests: moto's S3 server in a process of its own, and requests to it that we sign."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from framefeed.media.remote._s3_urls import Endpoint, S3Name, locate
from framefeed.media.remote._signature import Credentials, S3Request, sign
from tests.conftest import CHECKOUT
from tests.programs import running

EMPTY = "/framefeed-tests/empty"
"""Path of the request by which the server forgets what was put."""
ANY = Credentials("any", "secret")
"""Signatures are checked only where a test asks for it."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Store:
    """A server, and the connection of its tests."""

    port: int
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("http", "127.0.0.1", self.port)

    def boto3(self, service: str = "s3") -> Any:
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id=ANY.key,
            aws_secret_access_key=ANY.secret,
            region_name="us-east-1",
        )

    def ask(
        self,
        name: S3Name,
        headers: Mapping[str, str] | None = None,
        *,
        query: Iterable[tuple[str, str]] = (),
        method: str = "GET",
        body: bytes = b"",
        credentials: Credentials | None = ANY,
    ) -> Answer:
        """Send one request, signed or without a signature, exactly as `locate` and `sign` have it."""
        address = locate(name, "us-east-1", self.endpoint, query)
        sent = {**(headers or {}), "Host": address.host_header}
        if credentials is not None:
            request = S3Request(method, address.host_header, address.target)
            sent = sign(request, headers or {}, credentials, "us-east-1", datetime.now(UTC))
        self.connection.request(method, address.target, body, sent)
        answer = self.connection.getresponse()
        found = {each.lower(): value for each, value in answer.headers.items()}
        return Answer(answer.status, found, answer.read())

    @contextmanager
    def checking_signatures(self) -> Iterator[Credentials]:
        """Have the server check signatures, by botocore's signer; give credentials that it knows."""
        iam = self.boto3("iam")
        user = f"reader-{secrets.token_hex(4)}"
        iam.create_user(UserName=user)
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName=user, PolicyName="all", PolicyDocument=json.dumps(policy))
        keys = iam.create_access_key(UserName=user)["AccessKey"]
        self._set_unchecked("0")
        try:
            yield Credentials(keys["AccessKeyId"], keys["SecretAccessKey"])
        finally:
            self._set_unchecked("inf")

    def _set_unchecked(self, count: str) -> None:
        self.connection.request("POST", "/moto-api/reset-auth", count)
        assert self.connection.getresponse().read()

    def empty(self) -> None:
        """Remove all that was put; the bucket "many" is as it was."""
        self.connection.request("POST", EMPTY)
        assert self.connection.getresponse().read() == b""


@contextmanager
def serving() -> Iterator[Store]:
    """Start a server; end it. Tests share one: the fixture ``s3_server``."""
    pytest.importorskip("moto.server", reason="S3 is moto's server")
    pytest.importorskip("boto3", reason="objects are put by boto3")
    command = [sys.executable, "-m", "tests.media.remote.moto_server", EMPTY]
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "server", "AWS_SECRET_ACCESS_KEY": "server"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(command, cwd=CHECKOUT, env=env, **pipes) as server:
        store = Store(int(server.stdout.readline()))
        with closing(store.connection):
            yield store
