"""The run as a whole: what it is (a gauge of 1 with its attributes), when it started, how it ended."""

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry._logs import SeverityNumber
from opentelemetry.semconv.attributes import exception_attributes

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.redaction import without_secrets
from verl_otel.telemetry import events, failure
from verl_otel.telemetry.failure import Failure
from verl_otel.telemetry.instruments import produce

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric


@dataclass(frozen=True)
class ProfilerPlan:
    """What a profiler of the trainer will record: tool, steps, ranks (empty: all of them), where it writes."""

    tool: str
    steps: tuple[int, ...]
    ranks: tuple[int, ...] = ()
    path: str = ""


@dataclass(frozen=True)
class RunInfo:
    """What a run is; empty where unknown. `versions`: distribution to version."""

    project: str = ""
    experiment: str = ""
    algorithm: str = ""
    model: str = ""
    trainer: str = ""
    engine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    profiler: ProfilerPlan | None = None

    def attributes(self) -> dict[str, str]:
        """For metrics and events, without what is unknown."""
        named = {
            semconv.RUN_PROJECT: self.project,
            semconv.RUN_EXPERIMENT: self.experiment,
            semconv.RUN_ALGORITHM: self.algorithm,
            semconv.RUN_MODEL: self.model,
            semconv.RUN_TRAINER: self.trainer,
            semconv.RUN_ENGINE: self.engine,
            **{semconv.RUN_VERSION + name: version for name, version in self.versions.items()},
        }
        return {key: value for key, value in named.items() if value}


_lock = threading.Lock()
_info: RunInfo | None = None
_config: Mapping[str, Any] | None = None
_started = False
_failure: Failure | None = None
_resumed: int | None = None
_outcome: str | None = None


def describe(found: RunInfo, config: Mapping[str, Any] | None) -> None:
    """Say what this process's run is, and its resolved configuration; `verl.run.info` carries the former."""
    global _info, _config
    _info, _config = found, config


def profiler_plan() -> ProfilerPlan | None:
    """What the run's profiler records, if it has one."""
    return _info.profiler if _info is not None else None


def info(time: int) -> "Iterable[Metric]":
    """Producer of `verl.run.info`."""
    from verl_otel.delivery.points import gauge

    if _info is None:
        return []
    resumed = {} if _resumed is None else {semconv.RUN_RESUMED_STEP: _resumed}
    return [gauge(semconv.RUN_INFO, [({**_info.attributes(), **resumed}, 1)], time)]


def ended(time: int) -> "Iterable[Metric]":
    """Producer of `verl.run.ended`: a run that says nothing any more, and never said this, has vanished."""
    from verl_otel.delivery.points import gauge

    return [] if _outcome is None else [gauge(semconv.RUN_ENDED, [({semconv.RUN_OUTCOME: _outcome}, 1)], time)]


def resumed(step: int) -> None:
    """The trainer loaded the checkpoint of `step` and goes on from there."""
    global _resumed
    _resumed = step
    events.emit(semconv.EVENT_RUN_RESUME, {semconv.RUN_RESUMED_STEP: step})


def start() -> None:
    """Emit `verl.run.start`, once until `end`, with the resolved configuration where it is known."""
    global _started
    with _lock:
        if _started:
            return
        _started = True
    events.emit(semconv.EVENT_RUN_START, _attributes())


def note_outcome(found: Failure | None) -> None:
    """What the user's last wait for the run ended in; None when it was well. The last word before the end counts."""
    global _failure
    _failure = found


def end() -> None:
    """Emit `verl.run.end`, once, if the run had started: `finished`, `failed` or `interrupted`.

    It carries the earliest error that this process knows of, with where that was; what the program itself ended in,
    if that is another, stands beside it.
    """
    global _started, _outcome
    with _lock:
        if not _started:
            return
        _started = False
    if (last := _failure) is None:
        _outcome = "finished"
        events.emit(semconv.EVENT_RUN_END, {**_attributes(), semconv.RUN_OUTCOME: _outcome})
        return
    first = failure.first() or last
    _outcome = "interrupted" if last.interrupted else "failed"
    events.emit(
        semconv.EVENT_RUN_END,
        {
            **_attributes(),
            **first.where,
            semconv.RUN_OUTCOME: _outcome,
            exception_attributes.EXCEPTION_TYPE: first.kind,
            exception_attributes.EXCEPTION_MESSAGE: first.message,
            semconv.RUN_ENDED_IN: last.kind,
        },
        SeverityNumber.WARN if last.interrupted else SeverityNumber.ERROR,
    )


def _attributes() -> dict[str, Any]:
    attributes: dict[str, Any] = dict(_info.attributes()) if _info is not None else {}
    if _config is not None:
        with guard("run configuration"):
            attributes[semconv.RUN_CONFIG] = render_config(_config)
    return attributes


MAX_CONFIG: Final = 256 * 1024
"""Longest configuration text, in characters."""

_SECRET: Final = re.compile(
    r"(api|access|secret|private|signing|encryption)_?key|secret|passw(or)?d|passphrase|credential|authorization|headers?$"
    r"|^(?!.*(pad|eos|bos|unk|sep|cls|mask|special|stop)_token$)(.*_)?token$",
    re.IGNORECASE,
)
_ENVIRONMENT: Final = "env_vars"
"""Below it anything may be a secret, whatever it is called."""


def render_config(config: Mapping[str, Any]) -> str:
    """The configuration as JSON, with what may be a secret cut: by its key, in an environment, in a URL."""
    return json.dumps(_cut(config), default=str, ensure_ascii=False)[:MAX_CONFIG]


def _cut(value: Any, *, everything: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _cut_key(str(key), one, everything=everything) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(one, everything=everything) for one in value]
    if everything and value is not None:
        return "***"
    if isinstance(value, str) and "://" in value:
        return without_secrets(value)
    return value


def _cut_key(key: str, value: Any, *, everything: bool) -> Any:
    if value is not None and _SECRET.search(key):
        return "***"
    return _cut(value, everything=everything or key == _ENVIRONMENT)


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _info, _config, _started, _failure, _resumed, _outcome, _lock
    _info = _config = _failure = _resumed = _outcome = None
    _started, _lock = False, threading.Lock()


os.register_at_fork(after_in_child=reset)


produce(info, ended)
