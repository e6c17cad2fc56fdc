"""Where keys, region and server of S3 come from."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import UnreadableMedia, UsageError
from framefeed.media.remote._credentials import VARIABLES, S3Settings, resolve_s3
from framefeed.media.remote._s3_urls import Endpoint
from framefeed.media.remote._signature import Credentials
from framefeed.media.remote._storage_options import S3Options
from tests.programs import run_python

SECRET = "Zq7Secret"
KEYS = {"AWS_ACCESS_KEY_ID": "envkey", "AWS_SECRET_ACCESS_KEY": "envsecret"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without files; no variables, and no server that knows roles."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / ".aws").mkdir()
    return tmp_path


@pytest.fixture
def no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)


def write_files(home: Path, credentials: str = "", config: str = "") -> None:
    (home / ".aws" / "credentials").write_text(credentials)
    (home / ".aws" / "config").write_text(config)


FILE = "[default]\naws_access_key_id = filekey\naws_secret_access_key = file%(x)s=:;secret\n"
OTHER = "[other]\naws_access_key_id=otherkey\naws_secret_access_key=othersecret\naws_session_token=othertoken\n"


def test_the_users_options_go_first(home: Path) -> None:
    write_files(home, FILE, "[default]\nregion = eu-file-1\nendpoint_url = http://file\n")
    variables = {**KEYS, "AWS_SESSION_TOKEN": "envtoken", "AWS_REGION": "eu-env-1", "AWS_ENDPOINT_URL": "http://env"}
    options = S3Options("key", "secret", None, "https://h:9000", "eu-west-1")
    settings = resolve_s3(options, variables)
    assert (settings.region, settings.endpoint) == ("eu-west-1", Endpoint("https", "h", 9000))
    assert settings.get_credentials() == Credentials("key", "secret", None)  # not with the token of other keys


def test_then_the_variables(home: Path) -> None:
    write_files(
        home, FILE + "aws_session_token = filetoken\n", "[default]\nregion=eu-file-1\nendpoint_url=http://file\n"
    )
    settings = resolve_s3(S3Options(), {**KEYS, "AWS_DEFAULT_REGION": "eu-env-1", "AWS_ENDPOINT_URL": "http://env"})
    assert (settings.region, settings.endpoint) == ("eu-env-1", Endpoint("http", "env", 80))
    assert settings.get_credentials() == Credentials("envkey", "envsecret", None)
    more = {"AWS_SESSION_TOKEN": "t", "AWS_REGION": "eu-1", "AWS_DEFAULT_REGION": "eu-2", "AWS_PROFILE": "none"}
    more |= {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}
    settings = resolve_s3(S3Options(), {**KEYS, **more})
    assert (settings.region, settings.endpoint) == ("eu-1", Endpoint("http", "s3", 80))
    assert settings.get_credentials() == Credentials("envkey", "envsecret", "t")


def test_then_the_files(home: Path) -> None:
    write_files(home, FILE, "[default]\nregion=eu-file-1\ns3 =\n  max_concurrent_requests = 20\n")
    settings = resolve_s3(S3Options(), {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_REGION": ""})
    assert (settings.region, settings.endpoint) == ("eu-file-1", None)
    assert settings.get_credentials() == Credentials("filekey", "file%(x)s=:;secret")


@pytest.mark.parametrize("title", ["profile other", 'profile "other"', "profile  other"])
def test_a_profile_may_be_in_either_file(home: Path, title: str) -> None:
    config = (
        OTHER.replace("[other]", f"[{title}]")
        + "region = eu-other-1\n[default]\nregion = eu-1\n['x]\n[other]\nregion=x\n"
    )
    write_files(home, FILE, config)
    settings = resolve_s3(S3Options(), {"AWS_PROFILE": "other"})
    assert settings.region == "eu-other-1"
    assert settings.get_credentials() == Credentials("otherkey", "othersecret", "othertoken")
    write_files(home, FILE + OTHER.replace("othertoken\n", "token\n"), config)  # keys of one file only
    assert resolve_s3(S3Options(), {"AWS_PROFILE": "other"}).get_credentials() == Credentials(
        "otherkey", "othersecret", "token"
    )
    write_files(home, OTHER.replace("aws_session_token=othertoken\n", ""), config)
    other = resolve_s3(S3Options(), {"AWS_PROFILE": "other"}).get_credentials()
    assert other == Credentials("otherkey", "othersecret", None)


def test_files_may_be_elsewhere(home: Path) -> None:
    (home / "c").write_text(FILE)
    (home / "d").write_text("[profile default]\nregion=eu-d-1\n[default]\nregion=eu-d-2\n")
    variables = {"AWS_SHARED_CREDENTIALS_FILE": "~/c", "AWS_CONFIG_FILE": str(home / "d")}
    settings = resolve_s3(S3Options(), variables)
    assert (settings.region, settings.get_credentials()) == ("eu-d-1", Credentials("filekey", "file%(x)s=:;secret"))


def test_public_buckets_need_no_keys(home: Path, no_botocore: None) -> None:
    write_files(home, FILE)
    settings = resolve_s3(S3Options(anon=True), KEYS)
    assert (settings.get_credentials(), settings.region) == (None, "us-east-1")


@pytest.mark.parametrize(
    ("credentials", "config", "variables", "message"),
    [
        ("", "", {"AWS_ACCESS_KEY_ID": SECRET}, "AWS_SECRET_ACCESS_KEY: is not set, though AWS_ACCESS_KEY_ID is"),
        ("", "", {"AWS_SECRET_ACCESS_KEY": SECRET}, "AWS_ACCESS_KEY_ID: is not set"),
        ("", "", {**KEYS, "AWS_SECRET_ACCESS_KEY": f"{SECRET}\n"}, "AWS_SECRET_ACCESS_KEY: is empty, or has spaces"),
        ("", "", {**KEYS, "AWS_SESSION_TOKEN": f"{SECRET} "}, "AWS_SESSION_TOKEN: is empty, or has spaces"),
        ("", "", {**KEYS, "AWS_REGION": "evil.org/"}, "region: expected a region"),
        ("", "", {**KEYS, "AWS_ENDPOINT_URL": f"https://u:{SECRET}@h"}, "endpoint_url: expected a URL"),
        (FILE, "", {"AWS_PROFILE": "none"}, "AWS_PROFILE: .*credentials and .*config have no profile 'none'"),
        (f"[default]\naws_secret_access_key={SECRET}", "", {}, "profile 'default': aws_access_key_id: is not set"),
        (f"[default]\naws_secret_access_key {SECRET}\n", "", {}, r"\.aws/credentials: is no file of profiles"),
        (f"{SECRET}\n", "", {}, r"\.aws/credentials: is no file of profiles"),
        ("", f"[a]\n[a]\nx={SECRET}\n", {}, r"\.aws/config: is no file of profiles"),
        (f"[default]\naws_access_key_id=\x00{SECRET}\naws_secret_access_key=1", "", {}, "aws_access_key_id: is empty"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(
    home: Path, credentials: str, config: str, variables: dict[str, str], message: str
) -> None:
    write_files(home, credentials, config)
    with pytest.raises(UsageError, match=message) as caught:
        resolve_s3(S3Options(), variables)
    assert SECRET not in f"{caught.value!r}"
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_file_that_cannot_be_read_is_named(home: Path) -> None:
    with pytest.raises(UsageError, match=r"/\.aws: cannot be read: Is a directory"):
        resolve_s3(S3Options(), {"AWS_CONFIG_FILE": str(home / ".aws")})
    resolve_s3(S3Options(), {**KEYS, "AWS_CONFIG_FILE": f"{home}/none/config"})


ELSEWHERE: list[tuple[str, dict[str, str]]] = [
    ("", {}),
    ("[default]\nregion=eu-1\n", {}),
    (FILE + "role_arn=arn:aws:iam::1:role/x\nsource_profile=y\n", {}),
    (FILE + "sso_session=x\n", {}),
    (FILE, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}),
]


@pytest.mark.parametrize(("credentials", "variables"), ELSEWHERE)
def test_without_botocore_the_error_says_what_needs_it(
    home: Path, no_botocore: None, credentials: str, variables: dict[str, str]
) -> None:
    write_files(home, credentials)
    with pytest.raises(UsageError) as caught:
        resolve_s3(S3Options(), variables)
    for words in ("storage_options", "AWS_ACCESS_KEY_ID", "~/.aws/config", "instance roles", "SSO", "install botocore"):
        assert words in str(caught.value)
    assert "'anon': True" in str(caught.value)


def test_settings_show_and_pickle_no_keys(home: Path) -> None:
    settings = resolve_s3(S3Options(SECRET, SECRET, SECRET), {})
    assert SECRET not in f"{settings} {[settings]}"
    with pytest.raises(TypeError, match="pickle the storage_options"):
        pickle.dumps(settings)
    assert settings == resolve_s3(S3Options(SECRET, SECRET, SECRET), {})


PROGRAM = """
import json, pathlib, sys
path = pathlib.Path({count!r})
count = int(path.read_text()) + 1
path.write_text(str(count))
if count >= {last}:
    sys.exit({secret!r})
print(json.dumps({{"Version": 1, "AccessKeyId": f"key{{count}}", "SecretAccessKey": {secret!r}, "SessionToken": "t",
                  "Expiration": {expires!r}}}))
"""


@pytest.fixture
def process(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., S3Settings]:
    """Make settings whose keys come from a program, which gives others at each call."""
    pytest.importorskip("botocore.session", reason="roles and programs are asked by botocore")

    def make(last: int = 99, minutes: int = 1) -> S3Settings:
        expires = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
        count = home / "count"
        count.write_text("0")
        (home / "program.py").write_text(PROGRAM.format(count=str(count), last=last, secret=SECRET, expires=expires))
        write_files(home, "", f"[default]\ncredential_process = {sys.executable} {home}/program.py\n")
        return resolve_s3(S3Options())

    return make


def test_botocore_finds_and_renews_the_rest(process: Callable[..., S3Settings]) -> None:
    settings = process()
    keys = [settings.get_credentials() for _ in range(2)]
    assert len(set(keys)) == 2  # they would expire soon
    assert {(each.secret, each.token) for each in keys if each} == {(SECRET, "t")}
    settings = process(minutes=600)
    assert settings.get_credentials() == settings.get_credentials() == Credentials("key1", SECRET, "t")


def test_what_botocore_says_is_not_repeated(process: Callable[..., S3Settings]) -> None:
    with pytest.raises(UnreadableMedia, match=r"botocore got no credentials \(CredentialRetrievalError\)") as caught:
        process(last=1).get_credentials()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_botocore_finds_nothing(home: Path) -> None:
    pytest.importorskip("botocore.session", reason="roles are asked for by botocore")
    settings = resolve_s3(S3Options())
    with pytest.raises(UsageError, match=r"botocore found none either .*'anon': True"):
        settings.get_credentials()


FORK = """
import os, sys
from framefeed.media.remote._credentials import resolve_s3
from framefeed.media.remote._storage_options import S3Options
resolve_s3(S3Options(), {keys})
print("botocore" in sys.modules)
settings = resolve_s3(S3Options())
assert settings.get_credentials().key
settings._keys.value._source._refresh_lock.acquire()  # as another thread that renews the keys
if os.fork() == 0:
    assert settings.get_credentials().key
    os._exit(17)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_botocore_is_imported_for_roles_alone_and_a_forked_child_asks_anew(process: Callable[..., S3Settings]) -> None:
    process()
    run = run_python("-c", FORK.format(keys=json.dumps(KEYS)))
    assert (run.stdout, run.stderr) == ("False\n17\n", "")


def test_all_variables_that_are_read_are_known(tmp_path: Path) -> None:
    """Another value of one of them is noticed."""
    asked = set[str]()

    class Watched(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            asked.add(name)
            return super().get(name, default)

    files = {name: str(tmp_path / "none") for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")}
    for given in ({}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "t"}):
        resolve_s3(S3Options(), Watched(files | given))
    with pytest.raises(UsageError, match="have no profile 'p'"):
        resolve_s3(S3Options(), Watched(files | {"AWS_PROFILE": "p"}))
    assert asked == set(VARIABLES)
