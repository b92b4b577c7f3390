"""What the run was told: its configuration, the versions of what it ran with, and what it is."""

import json
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import Cursor, decoded, row

_START: Final = "SELECT attributes FROM events WHERE name = $name ORDER BY time DESC LIMIT 1"
_INFO: Final = "SELECT attributes FROM series WHERE metric = $name ORDER BY series DESC LIMIT 1"
_ABOUT: Final = "verl.run."


def configuration(cursor: Cursor) -> dict[str, Any]:
    """Of the newest attempt; empty where it was not told."""
    told = decoded((row(cursor, _INFO, {"name": semconv.RUN_INFO.name}) or {}).get("attributes"))
    told |= decoded((row(cursor, _START, {"name": semconv.EVENT_RUN_START}) or {}).get("attributes"))
    versions = {
        name.removeprefix(semconv.RUN_VERSION): str(value)
        for name, value in told.items()
        if name.startswith(semconv.RUN_VERSION)
    }
    info = {
        name.removeprefix(_ABOUT): str(value)
        for name, value in told.items()
        if name.startswith(_ABOUT) and not name.startswith(semconv.RUN_VERSION) and name != semconv.RUN_CONFIG
    }
    return {"config": _config(told.get(semconv.RUN_CONFIG)), "versions": versions, "info": info}


def _config(text: str | None) -> dict[str, Any]:
    """The tree; of one that was cut, since it was too long, nothing can be read."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
