"""What a check found: said once, in the same form, for people and for `--json`."""

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    """How a finding is; `FAILED` makes the doctor's exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """`link`: what was tested. `remedy`: what to do, empty where nothing is wrong."""

    link: str
    name: str
    state: State
    detail: str = ""
    remedy: str = ""
