"""Where requests to S3 go and who signs them: options of the user, the environment, files of AWS, and botocore."""

from __future__ import annotations

import configparser
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from framefeed._checks import expand_home
from framefeed._outcome import Err, catch_error
from framefeed._per_process import PerProcess
from framefeed._shortage import find_shortage
from framefeed.errors import UnreadableMedia, UsageError
from framefeed.media.remote._s3_urls import DEFAULT_REGION, Endpoint, parse_endpoint
from framefeed.media.remote._signature import Credentials
from framefeed.media.remote._storage_options import S3Options, check_key, check_region

# A profile that has one of these gets its keys from elsewhere, even if it has some.
_FROM_ELSEWHERE = ("role_arn", "sso_session", "sso_start_url")
VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
    "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
)  # fmt: skip
"""What `resolve_s3` reads of the environment."""
_BY_BOTOCORE = "instance roles, web identity, SSO and credential_process"
_NOTHING = (
    "s3: no credentials: looked for key and secret in storage_options, for AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, and in ~/.aws/credentials and ~/.aws/config for the profile AWS_PROFILE or default; "
)
_ADVICE = "give one of these, or storage_options={'s3://bucket/': {'anon': True}} for a public bucket"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach the buckets of one prefix; without an endpoint, at AWS.

    Workers get the options that it was made of, not the settings.
    """

    region: str
    endpoint: Endpoint | None
    _keys: Credentials | PerProcess[_BotocoreKeys] | None = field(repr=False)

    def get_credentials(self) -> Credentials | None:
        """Return keys that hold now; None to send no signature. May ask a server for them."""
        return self._keys.value.read() if isinstance(self._keys, PerProcess) else self._keys

    def __reduce__(self) -> NoReturn:
        raise TypeError("S3Settings have keys, and are not pickled: pickle the storage_options of the user")


class _BotocoreKeys:
    """Keys that botocore finds and renews, in this process: its locks outlive no fork."""

    def __init__(self) -> None:
        self._source: Any = None

    def read(self) -> Credentials:
        outcome = catch_error(_BotocoreKeys._read, self)
        # Not in a handler: the error there would be the context of the new one, and may have keys.
        if isinstance(outcome, Err):
            raise UnreadableMedia(
                f"s3: botocore got no credentials ({type(outcome.error).__name__}): `aws sts get-caller-identity` "
                "says more; `aws sso login` renews those of SSO",
                stage="open",
            )
        if outcome.value is None:
            raise UsageError(f"{_NOTHING}botocore found none either ({_BY_BOTOCORE}): {_ADVICE}")
        return outcome.value

    def _read(self) -> Credentials | None:
        if self._source is None:
            self._source = _import_botocore().Session().get_credentials()
        if self._source is None:
            return None
        keys = self._source.get_frozen_credentials()
        return Credentials(keys.access_key, keys.secret_key, keys.token)


def resolve_s3(options: S3Options, environment: Mapping[str, str] = os.environ) -> S3Settings:
    """Find out how to reach the buckets of one prefix; ask no server. Options of the user go first."""
    profile = _read_profile(environment)
    region = options.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    region = region or profile.facts.get("region") or DEFAULT_REGION
    check_region("region", region)
    endpoint_url = options.endpoint_url or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint_url = endpoint_url or profile.facts.get("endpoint_url")
    endpoint = parse_endpoint(endpoint_url) if endpoint_url else None
    if options.anon:
        return S3Settings(region, endpoint, None)
    keys = _find_static(options, environment, profile)
    if keys is None and _import_botocore() is None:
        raise UsageError(f"{_NOTHING}{_BY_BOTOCORE} need botocore (pip install botocore): {_ADVICE}")
    return S3Settings(region, endpoint, keys or PerProcess(_BotocoreKeys))


def _import_botocore() -> Any:
    try:
        import botocore.session
    except ImportError:
        return None
    return botocore.session


def _find_static(options: S3Options, environment: Mapping[str, str], profile: _Profile) -> Credentials | None:
    if options.key is not None and options.secret is not None:
        return Credentials(options.key, options.secret, options.token)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    keys = _make_credentials("", names, environment)
    if keys is not None or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return keys
    if not profile.exists and environment.get("AWS_PROFILE"):
        raise UsageError(f"AWS_PROFILE: {profile.files} have no profile {profile.name!r}")
    if any(profile.facts.get(name) for name in _FROM_ELSEWHERE):
        return None
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    credentials = (_make_credentials(f"profile {profile.name!r}: ", names, section) for section in profile.sections)
    return next(filter(None, credentials), None)


def _make_credentials(where: str, names: tuple[str, str, str], values: Mapping[str, str]) -> Credentials | None:
    """Make credentials of three variables, all from one place."""
    key, secret, token = (values.get(name) or None for name in names)
    if key is None and secret is None:
        return None
    if key is None or secret is None:
        missing = names[0] if key is None else names[1]
        raise UsageError(f"{where}{missing}: is not set, though {names[1] if key is None else names[0]} is")
    for name, value in zip(names, (key, secret, token), strict=True):
        check_key(f"{where}{name}", value)
    return Credentials(key, secret, token)


@dataclass(frozen=True, slots=True)
class _Profile:
    """A profile of AWS's tools: what its files say, the one with keys first, and the names of the files."""

    name: str
    sections: list[Mapping[str, str]] = field(repr=False)
    files: str

    @property
    def exists(self) -> bool:
        return any(self.sections)

    @property
    def facts(self) -> dict[str, str]:
        """What both files say; the one with keys goes first."""
        return {name: value for section in reversed(self.sections) for name, value in section.items()}


def _read_profile(environment: Mapping[str, str]) -> _Profile:
    name = environment.get("AWS_PROFILE") or "default"
    keys = expand_home(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
    config = expand_home(environment.get("AWS_CONFIG_FILE") or "~/.aws/config")
    sections = [_read_sections(keys).get(name, {}), {}]
    for title, section in _read_sections(config).items():
        try:
            words = shlex.split(title)
        except ValueError:  # a quote without its other half
            continue
        if words == ["profile", name] or (title == name == "default" and not sections[1]):
            sections[1] = section
    return _Profile(name, sections, f"{keys} and {config}")


def _read_sections(path: str) -> dict[str, Mapping[str, str]]:
    """Read a file of sections; one that is not there has none."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if find_shortage(error) is not None:
            raise
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    parser = configparser.RawConfigParser(default_section="\0")
    try:
        parser.read_string(text)
        is_damaged = False
    except configparser.Error:  # whose message has lines of the file
        is_damaged = True
    if is_damaged:
        raise UsageError(f"{path}: is no file of profiles: expected [name] and lines such as region = eu-west-1")
    return {title: dict(parser[title]) for title in parser.sections()}
