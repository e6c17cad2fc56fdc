"""A Hub of Hugging Face for tests: it asks for a token, lists folders by pages, and redirects to another host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.media.remote.faults import Fault, FaultServer, Stored, faulty

TOKEN = "hf_SeCrEtToken"
REPOSITORY = "datasets/org/name"
PAGE_FILES = 2


@dataclass
class Hub:
    """The Hub with one repository and one bucket of the same files, and the host that has their bytes.

    Attributes:
        hub: Takes requests with the token alone.
        bytes_host: Takes those without one alone.
    """

    hub: FaultServer
    bytes_host: FaultServer

    def put(self, path: str, data: bytes, revision: str = "main") -> None:
        """Put a file into the repository and the bucket, or replace it."""
        sha = hashlib.sha256(data).hexdigest()
        self.bytes_host.objects[f"/{sha}"] = Stored(data, f'"of-{sha[:9]}"')
        facts = {"Location": f"{self.bytes_host.url}/{sha}?X-Amz-Signature=1", "X-Linked-Size": str(len(data))}
        tags = {"ETag": f'"git-{sha[:9]}"', "X-Linked-Etag": f'"{sha}"', "X-Repo-Commit": "c" * 40}
        self.hub.always[f"/{REPOSITORY}/resolve/{revision}/{path}"] = Fault(302, headers=facts | tags)
        self.hub.always[f"/buckets/org/name/resolve/{path}"] = Fault(302, headers={**facts, "X-Xet-Hash": sha})

    def put_small(self, path: str, data: bytes) -> None:
        """Put a file that the Hub has itself, as one of git."""
        self.hub.objects[f"/{REPOSITORY}/resolve/main/{path}"] = Stored(data, f'W/"{hashlib.sha1(data).hexdigest()}"')
        self.hub.always[f"/{REPOSITORY}/resolve/main/{path}"] = Fault(headers={"X-Repo-Commit": "c" * 40})

    def list_files(self, api: str, files: Mapping[str, bytes], small: Mapping[str, bytes] | None = None) -> None:
        """Set what the Hub says of a folder, by pages; ``api`` is the path behind ``/api/``."""
        entries: list[dict[str, object]] = [{"type": "directory", "path": "data", "oid": "0", "size": 0}]
        for path, data in files.items():
            sha = hashlib.sha256(data).hexdigest()
            facts = {"lfs": {"oid": sha, "size": len(data), "pointerSize": 130}, "oid": "0" * 40}
            kind = {} if api.startswith("buckets") else facts
            entries.append({"type": "file", "path": path, "size": len(data), "xetHash": sha, **kind})
        for path, data in (small or {}).items():
            sha = hashlib.sha1(data).hexdigest()
            entries.append({"type": "file", "path": path, "size": len(data), "oid": sha})
        pages = [entries[start : start + PAGE_FILES] for start in range(0, len(entries), PAGE_FILES)]
        for number, page in enumerate(pages):
            at = f"/api/{api}" if not number else f"/api/{api}/page{number}"
            self.hub.objects[at] = Stored(json.dumps(page).encode())
            link = f'<https://another.host.invalid/api/{api}/page{number + 1}?cursor=x>; rel="next"'
            self.hub.always[at] = Fault(headers={"Link": link if page is not pages[-1] else None})


@contextmanager
def serving_hub(files: Mapping[str, bytes]) -> Iterator[Hub]:
    """Serve a Hub with these files in the block."""
    with faulty({}) as hub, faulty({}) as bytes_host:
        served = Hub(hub, bytes_host)
        hub.is_refused = lambda asked: asked.headers.get("Authorization") != f"Bearer {TOKEN}"
        bytes_host.is_refused = lambda asked: "Authorization" in asked.headers or "X-Amz-Signature" not in asked.target
        for path, data in files.items():
            served.put(path, data)
        yield served
