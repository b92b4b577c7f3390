"""How far the rollout is, at what rate, and what its oldest trajectory waits for."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.metrics import growth, newest
from verl_otel.local.queries.reading import SECOND, Cursor

RECENT: Final = 60 * SECOND
"""What was not told for so long goes on no more."""


def progress(cursor: Cursor, now: int) -> dict[str, Any] | None:
    """Of the rollout that goes on, validation or training; None while none does.

    In groups where the trainer has a buffer of them, else in trajectories.
    """
    for validation in (True, False):
        running, waits = _running(cursor, now, validation)
        found = _groups(cursor, now, validation, running) or _trajectories(cursor, now, validation, running)
        if found is not None:
            return {"validation": validation, **found, **waits}
    return None


def _values(cursor: Cursor, metric: str, now: int, validation: bool) -> list[tuple[Mapping[str, Any], float]]:
    found = newest(cursor, metric, now, RECENT)
    return [(one["attributes"], one["value"]) for one in found if _is(one["attributes"], validation)]


def _is(attributes: Mapping[str, Any], validation: bool) -> bool:
    return bool(attributes.get(semconv.VALIDATION)) is validation


def _running(cursor: Cursor, now: int, validation: bool) -> tuple[int, dict[str, Any]]:
    running = sum(value for _, value in _values(cursor, semconv.ROLLOUT_RUNNING.name, now, validation))
    oldest = _values(cursor, semconv.ROLLOUT_OLDEST.name, now, validation)
    if not running or not oldest:
        return int(running), {"oldest_s": None, "waits_for": None}
    attributes, seconds = max(oldest, key=lambda one: one[1])
    return int(running), {"oldest_s": seconds, "waits_for": attributes.get(semconv.ROLLOUT_WAITING_FOR)}


def _groups(cursor: Cursor, now: int, validation: bool, running: int) -> dict[str, Any] | None:
    states: dict[str, float] = defaultdict(float)
    for attributes, value in _values(cursor, semconv.ROLLOUT_GROUPS.name, now, validation):
        states[str(attributes.get(semconv.ROLLOUT_STATE))] += value
    if not states["pending"] + states["running"]:
        return None
    left = _values(cursor, semconv.ROLLOUT_TIME_LEFT.name, now, validation)
    rate = _values(cursor, semconv.ROLLOUT_RATE.name, now, validation)
    return {
        "expected": int(sum(states.values())),
        "pending": int(states["pending"]),
        "running": int(states["running"]),
        "done": int(states["finished"]),
        "failed": int(states["failed"]),
        "rate": rate[0][1] if rate else None,
        "left_s": left[0][1] if left else None,
    }


def _trajectories(cursor: Cursor, now: int, validation: bool, running: int) -> dict[str, Any] | None:
    """Since the last batch was taken; what was asked for before that has ended."""
    if not running:
        return None
    batches = newest(cursor, semconv.ROLLOUT_BATCH.name, now, now)
    taken = max((one["value"] for one in batches if _is(one["attributes"], validation)), default=None)
    within = None if taken is None else int(now - taken * SECOND)

    def grown(metric: str, *labels: str) -> dict[str, int]:
        found = growth(cursor, metric, now, within, (semconv.VALIDATION, *labels))
        return {key[-1]: int(value) for key, value in found.items() if (key[0] == "true") is validation}

    asked = sum(grown(semconv.ROLLOUT_DISPATCHED.name).values())
    ended = grown(semconv.ROLLOUT_ENDED.name, semconv.ROLLOUT_OUTCOME)
    done, failed = ended.get("finished", 0), ended.get("failed", 0)
    expected = max(asked, running + done + failed) if asked else None
    return {
        "expected": expected,
        "pending": None if expected is None else expected - running - done - failed,
        "running": running,
        "done": done,
        "failed": failed,
        "rate": None,
        "left_s": None,
    }
