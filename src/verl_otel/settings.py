"""Every VERL_OTEL_* variable: name, type, default and help in one table, read in one loop.

Standard OTEL_* variables belong to the SDK and the OTLP packages; `delivery/destinations.py` only checks those whose
mistakes they report late, or never. A bad value is named once and its default is taken: settings never raise into
training.
"""

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from verl_otel.guard import say

PREFIX: Final = "VERL_OTEL_"

PER_PROCESS: Final = ("service.instance.id", "host.", "process.")
"""Beginnings of resource attributes that name one process: each sets its own, whatever the environment says."""


def _flag(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if (value := known.get(text.strip().lower())) is None:
        raise ValueError("use true or false")
    return value


def _seconds(text: str) -> float:
    return _between(float, text, 0, 600, "use seconds between 0 and 600")


def _patience(text: str) -> float:
    return _between(float, text, 0, 7 * 86400, "use seconds between 0 (off) and 604800")


def _mebibytes(text: str) -> float:
    return _between(int, text, 1, 4096, "use a whole number of MiB between 1 and 4096")


def _count(text: str) -> float:
    return _between(int, text, 1, 10**9, "use a whole number above 0")


def _share(text: str) -> float:
    return _between(float, text, 0, 1, "use a share between 0 and 1")


def _whole(text: str) -> float:
    return _between(int, text, 0, 10**9, "use a whole number, 0 or above")


def _between(kind: Callable[[str], float], text: str, least: float, most: float, remedy: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(remedy) from None
    if not least <= value <= most:
        raise ValueError(remedy)
    return value


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; unset it or give a value")
    return text.strip()


def _path(text: str) -> str:
    module, _, name = text.strip().partition(":")
    if not (module and name):
        raise ValueError("write module:function")
    return text.strip()


def _urls(text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    if not all(one == "ray" or one.startswith(("http://", "https://")) for one in found):
        raise ValueError("write ray, or URLs that begin with http:// or https://, with commas between them")
    if any("@" in one for one in found):
        raise ValueError("a URL with a user or password would be shown by Ray; let the page be served without")
    return found


def _role(text: str) -> str:
    if text not in ("driver", "worker"):
        raise ValueError("use driver or worker")
    return text


def _setting(parse: Callable[[str], Any], default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"parse": parse, "help": help_text})


@dataclass(frozen=True)
class Settings:
    """What the VERL_OTEL_* variables say. A field's variable is `VERL_OTEL_` and its name in capitals."""

    enabled: bool | None = _setting(
        _flag,
        None,
        "true: observe through verl.plugins, whatever the launcher (verl >= 0.9.0). false: off, everywhere.",
    )
    run_id: str | None = _setting(_text, None, "Identity of the run on every signal; made by the driver if not given.")
    headers_file: str | None = _setting(
        _text, None, "File with OTLP headers (key=value, by line or comma), so that they stay out of Ray's runtime_env."
    )
    queue_mib: int = _setting(_mebibytes, 48, "Bound of the export queue of each process, in MiB.")
    flush_timeout: float = _setting(_seconds, 2.0, "Longest wait at the end of a run, and at exit, in seconds.")
    max_keys: int = _setting(_count, 10_000, "Most distinct scalar keys a process exports; further ones are counted.")
    nested_worker_spans: bool = _setting(
        _flag, False, "Also a span for a registered worker method that another one calls in the same process."
    )
    stuck_after: float = _setting(
        _patience,
        600.0,
        "A phase or worker call is stuck when open for this many seconds and three times its longest so far "
        "(three times this, if it never ended yet); 0 for off.",
    )
    logs: bool = _setting(
        _flag, False, "Also export log messages of WARNING and above, and uncaught exceptions. They may hold prompts."
    )
    rollout_ratio: float = _setting(
        _share,
        1.0,
        "Share of the trajectories that are traced, by a hash of run, step, uid and session; metrics see all.",
    )
    rollout_cap: int = _setting(
        _whole, 0, "Most trajectories of a step that are traced, those with the smallest hashes; 0 for no cap."
    )
    token_mismatch: bool = _setting(
        _flag,
        False,
        "Also the difference of each token's log-probability between engine and trainer, of every traced trajectory "
        "(needs rollout.calculate_log_probs).",
    )
    log_figures: bool = _setting(
        _flag,
        False,
        "Also give verl's own loggers what is computed of each step (verl_otel/...): throughput, GPU energy and idle "
        "share, stragglers, engine peaks.",
    )
    scrape: tuple[str, ...] = _setting(
        _urls,
        (),
        "Pages in Prometheus' text format that each node serves, as http://127.0.0.1:9100/metrics,...; `ray` is Ray's "
        "own metrics agent. Read once per node.",
    )
    span_hook: str | None = _setting(
        _path, None, "module:function that is called with each span of ours when it starts, and its name."
    )
    scalar_hook: str | None = _setting(
        _path, None, "module:function called with each step's scalars, and the step; what it returns is exported too."
    )
    attempt: int = _setting(_count, 1, "Internal; don't set it.")
    role: str = _setting(_role, "driver", "Internal; don't set it.")

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the environment (`os.environ` unless given); each bad or unknown variable costs one warning."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        known = {PREFIX + one.name.upper(): one for one in fields(cls)}
        for name in sorted(one for one in environ if one.startswith(PREFIX)):
            if (one := known.get(name)) is None:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
                remedy = (
                    f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known.keys() - INTERNAL))}"
                )
                _warn_once(f"{name} is not a variable of verl-otel and is ignored; {remedy}")
                continue
            try:
                values[one.name] = one.metadata["parse"](environ[name])
            except ValueError as error:
                _warn_once(f"{name}={environ[name]!r} is not usable: {error}. Its default {one.default!r} is taken.")
        return cls(**values)


OURS: Final = frozenset(PREFIX + one.name.upper() for one in fields(Settings))
"""Names of all variables of ours; no value of theirs is a secret."""


def export(options: Mapping[str, Any]) -> None:
    """Set variables from options by field name, for this process and its workers; None leaves one as it is.

    Raises `ValueError` for a value that the variable wouldn't take: a program's own mistake is best seen at once.
    """
    parsers = {one.name: one.metadata["parse"] for one in fields(Settings)}
    for name, value in options.items():
        if value is not None:
            text = _text_of(value)
            try:
                parsers[name](text)
            except ValueError as error:
                raise ValueError(f"{name}={value!r}: {error}") from None
            os.environ[PREFIX + name.upper()] = text


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def peek(name: str) -> Any:
    """One setting by its field's name, its default if the variable is absent or bad; complains of nothing.

    For what is asked in programs that may have nothing to do with verl.
    """
    (one,) = (one for one in fields(Settings) if one.name == name)
    try:
        return one.metadata["parse"](os.environ[PREFIX + name.upper()])
    except (KeyError, ValueError):
        return one.default


INTERNAL: Final = {f"{PREFIX}ROLE", f"{PREFIX}ATTEMPT"}
"""Set by one process of ours for another; no user's business."""

_warned: set[str] = set()
_collected: list[str] | None = None


@contextlib.contextmanager
def collect_complaints() -> Iterator[list[str]]:
    """What `Settings.read` complains of meanwhile, in a list instead of the log."""
    global _collected
    before = _collected
    found: list[str] = []
    _collected = found
    try:
        yield found
    finally:
        _collected = before


def _warn_once(message: str) -> None:
    if _collected is not None:
        _collected.append(message)
        return
    # Workers inherit the environment: what is wrong with it is the driver's to say, once.
    if message in _warned or os.environ.get(PREFIX + "ROLE") == "worker":
        return
    _warned.add(message)
    say(message)
