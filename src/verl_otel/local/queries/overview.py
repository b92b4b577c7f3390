"""Is the run alive, what does it do, what went wrong, and can its numbers be trusted?"""

from collections.abc import Mapping
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries import advice, alerts
from verl_otel.local.queries.failure import failure, last_good_step
from verl_otel.local.queries.metrics import growth
from verl_otel.local.queries.phases import open_phases
from verl_otel.local.queries.progress import progress
from verl_otel.local.queries.reading import MILLISECOND, Cursor

_NO_LOSS: Final = "none"
"""Reason of the zero that is told so that there is something to compare with."""
_ENDED: Final = ("finished", "failed", "interrupted")


def overview(cursor: Cursor, run: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Of a run as the list has it. `now`: ns; of a run that has ended, alerts are those of its last moment."""
    running = run["status"] == "running"
    last_heard = int(run["updated"] * MILLISECOND)
    at = now if running else last_heard
    firing = alerts.firing(cursor, at, now=now, ended=run["status"] in _ENDED)
    return {
        "run": dict(run),
        "phases_open": [] if run["status"] in _ENDED else open_phases(cursor, at),
        "progress": progress(cursor, at) if running else None,
        "failure": failure(cursor) if run["status"] == "failed" else None,
        "alerts": firing,
        # A low number on a run that is broken is a symptom: advice would lead astray.
        "advice": [] if firing else advice.advice(cursor, at),
        "health": health(cursor, at, (now - last_heard) / 1e9 if running else None),
        "last_good_step": last_good_step(cursor),
    }


def health(cursor: Cursor, at: int, late_s: float | None) -> dict[str, Any]:
    """What of the telemetry was lost, cut or left out by sampling, in all; `late_s`: age of the newest data."""
    dropped = growth(cursor, semconv.TELEMETRY_DROPPED.name, at, labels=(semconv.DROP_REASON,))
    return {
        "lost": int(sum(value for (reason,), value in dropped.items() if reason != _NO_LOSS)),
        "late_s": None if late_s is None else max(0.0, late_s),
        "cut": int(sum(growth(cursor, semconv.METRIC_CUT.name, at).values())),
        "sampled_out": int(sum(growth(cursor, semconv.ROLLOUT_UNSAMPLED.name, at).values())),
    }
