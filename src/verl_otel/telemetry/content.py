"""What models, tools and rewards wrote: left out, unless the user asks for it by OpenTelemetry's own variable.

The text of an exception that a tool, a reward or a parser raised counts as such: it often quotes what it choked on.
"""

import json
import os
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry import context, trace
from opentelemetry.semconv.attributes import exception_attributes
from opentelemetry.trace import Span

from verl_otel import runtime, semconv
from verl_otel.guard import guard, say
from verl_otel.telemetry import events

VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
MAX_TEXT: Final = 16 * 1024
"""Longest text of one message, in characters."""
MAX_TRAJECTORY: Final = 512 * 1024
"""Most characters of one trajectory: Tempo ends a trace at about 5 MB."""


class Capture(NamedTuple):
    """Where content goes."""

    spans: bool
    events: bool


NOTHING: Final = Capture(False, False)
_MODES: Final = {
    "no_content": NOTHING,
    "span_only": Capture(True, False),
    "event_only": Capture(False, True),
    "span_and_event": Capture(True, True),
    # The variable's older values.
    "true": Capture(True, True),
    "false": NOTHING,
    "": NOTHING,
}
_known: dict[str, Capture] = {}


def capture() -> Capture:
    """What the variable asks for; nothing where it has no value of the standard's, which is said once."""
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text not in _known:
        if text not in _MODES:
            say(f"{VARIABLE}={text!r} is none of {', '.join(one.upper() for one in _MODES if one)}: no content is kept")
        _known[text] = _MODES.get(text, NOTHING)
    return _known[text]


def captured() -> bool:
    """Whether content goes anywhere."""
    return any(capture())


def cut(text: str, most: int = MAX_TEXT) -> str:
    """At most `most` characters, none of them split, and nothing that UTF-8 can't hold."""
    return text[:most].encode(errors="replace").decode()


def messages(said: Iterable[tuple[str, str]], finish_reason: str | None = None) -> str:
    """(role, text) pairs in the JSON shape of OTel's gen_ai convention; `finish_reason`: of answers."""
    ending = {} if finish_reason is None else {"finish_reason": finish_reason}
    shaped = [{"role": role, "parts": [{"type": "text", "content": cut(text)}], **ending} for role, text in said]
    return json.dumps(shaped, ensure_ascii=False)


class Room:
    """What is left of a trajectory's share, in characters."""

    def __init__(self, most: int = MAX_TRAJECTORY) -> None:
        self.left = most


def keep(span: Span, texts: Mapping[str, str], room: Room | None) -> None:
    """Put content on the span, in an event beside it, or both, as the user asked; nothing once there is no room."""
    with guard("keeping content"):
        size = sum(map(len, texts.values()))
        if not captured() or not span.is_recording() or (room is not None and size > room.left):
            return
        if room is not None:
            room.left -= size
        if capture().spans:
            span.set_attributes(dict(texts))
        if capture().events:
            token = context.attach(trace.set_span_in_context(span))
            try:
                events.emit(semconv.EVENT_MESSAGES, texts)
            finally:
                context.detach(token)


_origins: set[str] = set()
_handled: bool | None = None
"""Whether this process handles content; None while it isn't known."""


def handled() -> None:
    """This process handles content: whatever it says in passing may quote it."""
    global _handled
    _handled = True


def not_handled() -> None:
    """This process trains, and handles no content, unless it turns out to."""
    global _handled
    if _handled is None:
        _handled = False


def here() -> bool:
    """Whether what this process says in passing must be withheld: of a worker of unknown purpose, too."""
    if captured():
        return False
    if _handled is not None:
        return _handled
    return (current := runtime.started()) is not None and current.settings.role == "worker"


def keep_private(*origins: str) -> None:
    """Errors that came from these, as Ray names what ran in another process, hold content."""
    _origins.update(origins)


def shareable(error: BaseException, *, private: bool = False) -> bool:
    """Whether the error's text may leave: content is captured, or it came from nowhere that handles content.

    `private`: it is known to come from there.
    """
    if captured():
        return True
    if private:
        return False
    text = str(error)
    return not any(origin in text for origin in _origins)


def without_text(error: BaseException) -> Mapping[str, Any]:
    """Attributes of an exception event, with its type and where it was raised, but not what it says."""
    frames = traceback.format_tb(error.__traceback__)
    return {
        exception_attributes.EXCEPTION_TYPE: type(error).__name__,
        exception_attributes.EXCEPTION_STACKTRACE: "".join(frames)[-MAX_TEXT:],
    }


def reset() -> None:
    """Forget what was found out, between tests."""
    global _handled
    _handled = None
    _known.clear()
