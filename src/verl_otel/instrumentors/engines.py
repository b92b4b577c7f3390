"""Engine servers, whatever the engine: a server's requests, and what is done to it beside them."""

import functools
from collections.abc import AsyncGenerator, Callable
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, observed
from verl_otel.instrumentors.model_clients import read_answer
from verl_otel.instrumentors.reading import integer
from verl_otel.patching import Patches, Wrapper
from verl_otel.telemetry import content, engines, http_context, replicas
from verl_otel.telemetry.engines import EngineRequest
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.replicas import Replica

PROMPT: Final = ("prompt_ids", "sampling_params", "request_id")
CONTROLS: Final = (
    "wake_up",
    "sleep",
    "clear_kv_cache",
    "release_kv_cache",
    "resume_kv_cache",
    "abort_all_requests",
    "resume_generation",
)
"""What the trainer has a server do around new weights."""
_PART_OF_ANOTHER: Final = ("kv_transfer_params", "bootstrap_room")
"""What prefill and decode servers are given with a part of a request."""
_DECODE: Final = "decode"
_SINCE: Final = {
    "release_kv_cache": "0.8.0",
    "resume_kv_cache": "0.8.0",
    "resume_engine_generation": "0.9.1",
    "open_submission_gate": "0.9.1",
}


def read_replica(server: Any, engine: str) -> Replica:
    """Which replica a server is of; its role stands in its actor's name, but for prefill."""
    name, role = _actor_name(), getattr(server, "_disaggregation_role", None)
    named = next((one for one in ("reward", "teacher", _DECODE) if f"_{one}_" in name), replicas.ROLLOUT)
    found = named if role in (None, "null") else str(role)
    member = name.rpartition("_")[2] if found == _DECODE else ""
    rank = integer(getattr(server, "replica_rank", None))
    return Replica(engine, found, rank, int(member) if member.isdigit() else None)


def _actor_name() -> str:
    with guard("an actor's name"):
        import ray

        return str(ray.get_runtime_context().get_actor_name() or "")
    return ""


def start_request(engine: str) -> Callable[..., Observation]:
    """The server of `engine` is asked. A prefill server that only passes the request on counts no tokens."""

    def start_generate(server: Any, prompt_ids: Any = None, *_: Any, **more: Any) -> Observation:
        learn(server, engine)
        at_top = not any(more.get(name) is not None for name in _PART_OF_ANOTHER)
        if at_top and getattr(server, "_pd_decode_peers", None):
            return replicas.control("dispatch", private=True)
        return EngineRequest(len(prompt_ids))

    return start_generate


def learn(server: Any, engine: str) -> bool:
    """Note, once, which replica this process serves; False on a node that only lends it its GPUs."""
    if getattr(server, "node_rank", 0):
        return False
    if replicas.replica().engine != engine:
        content.handled()
        replicas.serves(read_replica(server, engine))
    return True


def finish_request(request: Observation, output: Any) -> None:
    """The server has the answer."""
    if isinstance(request, EngineRequest):
        request.answered(read_answer(output))


class _Parking:
    """A request at verl's gate, which is closed while weights change."""

    def __init__(self, request: EngineRequest) -> None:
        self._request, self._since = request, monotonic()
        request.parked()

    def stop(self) -> None:
        """It was admitted, or refused."""
        self._request.admitted(monotonic() - self._since)

    def fail(self, error: BaseException) -> None:
        """It was cancelled there."""
        self.stop()


def observed_gate(own: Patches, is_closed: Callable[[Any], bool]) -> Wrapper:
    """A wrapper for a server's wait at its gate; an open one keeps nobody."""

    def start_parking(server: Any, *_: Any, **__: Any) -> Observation | None:
        request = engines.current()
        return _Parking(request) if request is not None and is_closed(server) else None

    return observed(own, start_parking)


class Answering(Protocol):
    """An answer that an engine gives in parts. Its last part is told at the end, since there may be one a token."""

    each: Callable[[Any], None] | None
    """Called with every part, where one doesn't hold all before."""

    def began(self, part: Any) -> None:
        """The first part came."""

    def stop(self, last: Any) -> None:
        """All of it came; None if there was nothing."""

    def fail(self, error: BaseException, last: Any) -> None:
        """It ended before, or nobody wants the rest."""


_Answered = TypeVar("_Answered", bound=Answering)


def observed_answers(
    own: Patches,
    start: Callable[..., _Answered],
    prepare: Callable[[_Answered, dict[str, Any]], None] = lambda answering, options: None,
) -> Wrapper:
    """A wrapper for an engine's asynchronous generators; `prepare` may add to their keyword arguments.

    A generator's body runs in the context of whoever asks for the next part, so nothing is made current in it.
    """

    reading = f"{own.name} reading an answer"

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def answers(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            answering: _Answered | None = None
            begun: _Answered | None = None
            if own.active:
                with guard(f"{own.name} watching an answer"):
                    answering = start(*args, **kwargs)
                    prepare(answering, kwargs)
            parts, part, each = original(*args, **kwargs), None, None
            try:
                async for part in parts:
                    if answering is not None:
                        with guard(reading):
                            answering.began(part)
                        each = answering.each
                        answering, begun = None, answering
                    if each is not None:
                        with guard(reading):
                            each(part)
                    yield part
            except BaseException as error:
                with guard(reading):
                    if (ending := begun or answering) is not None:
                        ending.fail(error, part)
                raise
            finally:
                await parts.aclose()
            with guard(reading):
                if (ending := begun or answering) is not None:
                    ending.stop(part)

        return answers

    return wrapper


def start_launch(engine: str) -> Callable[..., None]:
    """The server starts: it may be asked over HTTP alone."""

    def start(server: Any, *_: Any, **__: Any) -> None:
        learn(server, engine)

    return start


def start_control(engine: str, action: str) -> Callable[..., Recording | None]:
    """The server is told to do something."""

    def start(server: Any, *_: Any, **__: Any) -> Recording | None:
        return replicas.control(action) if learn(server, engine) else None

    return start


def start_versioning(server: Any, global_steps: Any = None, *_: Any, **__: Any) -> None:
    """The server is told the version of its weights."""
    replicas.weights_are(integer(global_steps))


def wrap_run_uvicorn(own: Patches) -> Wrapper:
    """Have the server's HTTP application take up the trace that a request carries."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def run_uvicorn(app: Any, *args: Any, **kwargs: Any) -> Any:
            if own.active:
                with guard("the engine's HTTP server"):
                    _take_up_traces(app)
            return await original(app, *args, **kwargs)

        return run_uvicorn

    return wrapper


def _take_up_traces(app: Any) -> None:
    if getattr(app, "middleware_stack", None) is None:
        app.add_middleware(http_context.CarriedContext)
    else:  # vLLM has built it already, and it takes no more
        app.middleware_stack = http_context.CarriedContext(app.middleware_stack)


def server_targets(
    own: Patches,
    engine: str,
    module: str,
    server: str,
    *,
    since: str = "0.7.1",
    controls: tuple[str, ...] = CONTROLS,
) -> tuple[Target, ...]:
    """The hook points of one engine's server class."""
    return (
        Target(module, f"{server}.generate", observed(own, start_request(engine), finish_request), PROMPT, since),
        Target(module, f"{server}.launch_server", observed(own, start_launch(engine)), since=since),
        Target(module, "run_uvicorn", wrap_run_uvicorn(own), ("app",), since),
        Target(module, f"{server}.set_global_steps", observed(own, start_versioning), ("global_steps",), since),
        *(
            Target(
                module,
                f"{server}.{action}",
                observed(own, start_control(engine, action)),
                since=max(since, _SINCE.get(action, since)),
            )
            for action in controls
        ),
    )
