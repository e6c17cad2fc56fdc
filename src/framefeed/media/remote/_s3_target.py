"""Objects of S3: requests with a signature, and what their errors mean."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from framefeed._per_process import PerProcess
from framefeed._shown import show_name
from framefeed.errors import UsageError
from framefeed.media.remote._credentials import VARIABLES, S3Settings, resolve_s3
from framefeed.media.remote._s3_listing import TRANSIENT_CODES, describe_error
from framefeed.media.remote._s3_urls import S3Name, find_other_region, locate, split_s3_url
from framefeed.media.remote._signature import EMPTY_SHA256, S3Request, sign
from framefeed.media.remote._storage_options import S3Options
from framefeed.media.remote._targets import Problem, Target


class S3State:
    """How this process reaches buckets: the settings, and the regions of buckets that are elsewhere."""

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._regions: dict[str, str] = {}
        self._settings: S3Settings | None = None
        self._variables: tuple[str | None, ...] = ()

    @property
    def settings(self) -> S3Settings:
        """How buckets are reached."""
        settings = self._settings  # which another thread may renew
        if settings is None:
            settings = self._settings = resolve_s3(self._options)
        return settings

    def update(self) -> None:
        """Begin anew if a variable has another value, as in a notebook."""
        variables = tuple(map(os.environ.get, VARIABLES))
        if variables != self._variables:
            self._variables, self._regions, self._settings = variables, {}, None

    def renew(self) -> None:
        """Read keys anew: those of a file or variable may have been replaced since they were read."""
        self._settings = None

    def find(self, bucket: str) -> str:
        """Find the region of a bucket."""
        return self._regions.get(bucket, self.settings.region)

    def learn(self, bucket: str, region: str) -> None:
        """Remember the region of a bucket."""
        self._regions[bucket] = region


_STATES: PerProcess[dict[S3Options, S3State]] = PerProcess(dict)


@dataclass(frozen=True)
class S3Target(Target):
    """An object that a URL ``s3://bucket/key`` names; what its options lack comes from the environment.

    With a query, of names and values, it is a request about the bucket, whose URL says more to people alone.
    """

    options: S3Options = field(default_factory=S3Options, repr=False)
    name: S3Name = field(init=False)
    method: str = "GET"
    body_sha256: str = EMPTY_SHA256
    query: tuple[tuple[str, str], ...] = ()
    explains: ClassVar[bool] = True
    # S3 moves no objects, and a signature is for one host.
    follows: ClassVar[bool] = False
    server_setting: ClassVar[str] = "endpoint_url (storage_options or AWS_ENDPOINT_URL)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", split_s3_url(self.url))
        if self.query:
            object.__setattr__(self, "name", S3Name(self.name.bucket, ""))
        elif not self.name.key:
            raise UsageError(f"{show_name(self.url)}: names a bucket: name an object in it, s3://bucket/key")

    @property
    def key(self) -> Hashable:
        """Key of the object and of how it is asked for."""
        return self.url, self.options

    @property
    def _state(self) -> S3State:
        states = _STATES.value
        state = states.get(self.options) or states.setdefault(self.options, S3State(self.options))
        state.update()
        return state

    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request with these headers, signed now if there are keys."""
        known = self._state
        region = known.find(self.name.bucket)
        address = locate(self.name, region, known.settings.endpoint, self.query)
        credentials = known.settings.get_credentials()
        sent = dict(headers)
        if credentials is not None:
            request = S3Request(self.method, address.host_header, address.target, self.body_sha256)
            sent = sign(request, headers, credentials, region, datetime.now(UTC))
        return f"{address.scheme}://{address.host_header}{address.target}", sent

    def explain(self, status: int, headers: Mapping[str, str], document: bytes) -> Problem | None:
        """Explain an error of S3; learn from it where the bucket is."""
        known = self._state
        bucket = self.name.bucket
        region = find_other_region(status, headers, document, known.find(bucket))
        if region is not None:
            known.learn(bucket, region)
            return Problem("", is_transient=True)
        credentials = known.settings.get_credentials()
        secrets = [each for each in ((credentials and (credentials.key, credentials.token)) or ()) if each]
        code, message = describe_error(document, secrets)
        if code == "ExpiredToken":
            known.renew()
        if code == "AccessDenied" and self.method != "GET":
            message = f"{code}: these credentials may not write it: they need the rights to put and to delete objects"
        if code == "NoSuchKey" and self.method == "PUT":
            return None  # The object that was to be replaced: its status says so.
        return Problem(message, code in TRANSIENT_CODES, code in _MISSING_CODES) if code else None


_MISSING_CODES = ("NoSuchBucket", "NoSuchKey", "NoSuchVersion")
