"""What travels between the exam and its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ASK, READ, READ_DIRECTLY, INTRODUCE = "ask", "read", "read directly", "introduce"


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with a file.

    Attributes:
        task: `ASK`: make the questions. `READ`: ask the backend. `READ_DIRECTLY`: ask its library. `INTRODUCE`: say
            versions.
        path: The file.
        questions: Where its questions are, or are to be written.
    """

    task: str
    path: Path = Path()
    questions: Path = Path()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a job.

    Attributes:
        status: The worst that was met: see `STATUSES` of ``tests.engines.page``.
        text: Why.
        asked: Frames that were asked for.
        wrong: Frames that were wrong, and nothing said so.
        facts: Of an introduction: versions.
    """

    status: str
    text: str = ""
    asked: int = 0
    wrong: int = 0
    facts: dict[str, str] = field(default_factory=dict)
