"""A resumed training is one run with attempts: its identity stands beside its checkpoints, where a next attempt looks.

One small file in the folder of checkpoints, made once a checkpoint is there. A run without checkpoints writes nothing.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE: Final = "verl_otel_run.json"


@dataclass(frozen=True)
class Attempt:
    """The run's identity, and which of its attempts this is, from 1."""

    run_id: str
    attempt: int


def read(folder: Path) -> Attempt | None:
    """What the last attempt left; None if there is nothing, or nothing readable."""
    try:
        found = json.loads((folder / FILE).read_text())
        return Attempt(str(found["run_id"]), int(found["attempt"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(folder: Path, attempt: Attempt) -> None:
    """Leave word for the next attempt, whole or not at all; raises `OSError` where the folder can't be written."""
    if read(folder) != attempt:
        new = folder / f"{FILE}.{os.getpid()}"
        new.write_text(json.dumps(asdict(attempt)))
        new.replace(folder / FILE)


def follow(folder: Path, given: str | None) -> Attempt | None:
    """The attempt that resumes from `folder`: one more than the last; None if none is known there.

    `given`: the run's identity if the user named one; another's attempts don't count for it.
    """
    last = read(folder)
    if last is None or given not in (None, last.run_id):
        return None
    return Attempt(last.run_id, last.attempt + 1)
