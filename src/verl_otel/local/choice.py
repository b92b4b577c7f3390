"""Which run is meant: its id, the beginning of its id, or the beginning of its experiment's name."""

from collections.abc import Mapping, Sequence
from typing import Any

from verl_otel.local.errors import LocalError


def choose(runs: Sequence[Mapping[str, Any]], text: str) -> Mapping[str, Any]:
    """The run that is meant. Raises `LocalError` if it is none, or more than one."""
    for matches in (_is_id, _begins_id, _begins_experiment):
        found = [one for one in runs if matches(one, text)]
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(str(one["id"]) for one in found[:5])
            raise LocalError(f"{text!r} may be any of {len(found)} runs: {some}{', ...' if len(found) > 5 else ''}")
    raise LocalError(f"there is no run {text!r}: `verl-otel ls` shows those that there are")


def newest(runs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one that runs, else the one that was last heard of. Raises `LocalError` if there is none."""
    if not runs:
        raise LocalError("there is no run yet: `verl-otel run -- python -m verl.trainer.main_ppo ...` records one")
    return max(runs, key=lambda one: (one["status"] == "running", one["updated"]))


def _is_id(run: Mapping[str, Any], text: str) -> bool:
    return bool(run["id"] == text)


def _begins_id(run: Mapping[str, Any], text: str) -> bool:
    return str(run["id"]).startswith(text)


def _begins_experiment(run: Mapping[str, Any], text: str) -> bool:
    return str(run.get("experiment") or "").startswith(text)
