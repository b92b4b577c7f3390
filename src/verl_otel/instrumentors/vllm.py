"""vLLM: verl's server, its gate, and the engine's own generators, which know when the first token came."""

import functools
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.instrumentors.engines import observed_answers, server_targets
from verl_otel.patching import patches
from verl_otel.telemetry import engines, http_context
from verl_otel.telemetry.engines import EngineRequest, Timing
from verl_otel.telemetry.model_calls import Answer

_NAME: Final = "verl_vllm"
_own: Final = patches(_NAME)


class _Parking:
    """A request at verl's gate, which is closed while weights change."""

    def __init__(self, request: EngineRequest) -> None:
        self._request, self._since = request, monotonic()
        request.parked()

    def stop(self) -> None:
        """It was admitted, or refused."""
        with guard("leaving the gate"):
            self._request.admitted(monotonic() - self._since)

    def fail(self, error: BaseException) -> None:
        """It was cancelled there."""
        self.stop()


def start_parking(server: Any, *_: Any, **__: Any) -> Observation | None:
    """A request comes to the gate; an open one keeps nobody."""
    request = engines.current()
    return _Parking(request) if request is not None and server._submission_paused else None  # noqa: SLF001 - verl's gate


class _Answering:
    """One answer of the engine's, for verl's request that it is for, or for one that came over HTTP."""

    def __init__(self, engine: Any, *_: Any, **options: Any) -> None:
        self._engine, self._request_id = engine, options.get("request_id")
        self._rank: int | None = None
        self._last: Any = None
        found = engines.current()
        self._own = EngineRequest.aside() if found is None else None
        self._request = found or self._own
        if self._request is not None:
            self._request.submitted()

    def headers(self) -> dict[str, str] | None:
        """For the engine's own spans, where the user turned those on."""
        settings = getattr(self._engine, "observability_config", None)
        if self._request is None or not getattr(settings, "otlp_traces_endpoint", None):
            return None
        return http_context.headers(self._request.recording.span)

    def produced(self, answer: Any) -> None:
        """A part of it, with all before."""
        if self._rank is None:
            self._rank = read_rank(self._engine, self._request_id)
        self._last = answer
        if self._request is not None:
            self._request.produced()

    def stop(self) -> None:
        """All of it is there."""
        self._tell()
        if self._own is not None:
            self._own.stop()

    def fail(self, error: BaseException) -> None:
        """It ended before."""
        self._tell()
        if self._own is not None:
            self._own.fail(error)

    def _tell(self) -> None:
        with guard("reading an engine's answer"):
            if self._request is not None:
                self._request.timed(read_timing(self._last, self._rank))
            if self._own is not None and self._last is not None:
                self._own.answered(read_output(self._last))


def wrap_answers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Watch the parts of the engine's answers come."""

    def with_headers(answering: _Answering, options: dict[str, Any]) -> None:
        if options.get("trace_headers") is None and (headers := answering.headers()) is not None:
            options["trace_headers"] = headers

    return observed_answers(_own, _Answering, with_headers)(original)


def read_timing(output: Any, rank: int | None) -> Timing:
    """What vLLM's RequestOutput says of its own times (monotonic seconds); it does so where log stats are on."""
    stats = getattr(output, "metrics", None)
    scheduled, queued = getattr(stats, "scheduled_ts", 0.0), getattr(stats, "queued_ts", 0.0)
    return Timing(scheduled - queued if scheduled and queued else None, None, rank)


def read_rank(engine: Any, request_id: Any) -> int | None:
    """Which of several data-parallel engine cores has the request; its client writes that down as bytes."""
    found = getattr(getattr(engine, "engine_core", None), "reqs_in_flight", {}).get(request_id)
    return int.from_bytes(found, "little") if isinstance(found, bytes) else None


def read_output(output: Any) -> Answer:
    """Tokens and reason of an answer; one of a pooling model has none."""
    made = getattr(output, "outputs", None)
    first = made[0] if isinstance(made, list) and made else None
    reason = getattr(first, "finish_reason", None)
    return Answer(
        output_tokens=len(first.token_ids) if first is not None else None,
        cached_tokens=getattr(output, "num_cached_tokens", None),
        finish_reason=str(reason) if reason is not None else None,
    )


def wrap_build_app(original: Callable[..., Any]) -> Callable[..., Any]:
    """Have the HTTP server take up the trace that a request carries."""

    @functools.wraps(original)
    def build_app(*args: Any, **kwargs: Any) -> Any:
        app = original(*args, **kwargs)
        if _own.active:
            with guard("the engine's HTTP server"):
                # vLLM has built its stack, which then takes no more middleware.
                if app.middleware_stack is None:
                    app.add_middleware(http_context.CarriedContext)
                else:
                    app.middleware_stack = http_context.CarriedContext(app.middleware_stack)
        return app

    return build_app


_MODULE: Final = "verl.workers.rollout.vllm_rollout.vllm_async_server"


class VllmInstrumentor(VerlInstrumentor):
    """Requests in vLLM, from verl's server and from `AsyncLLM` in the same process."""

    name = _NAME
    targets = (
        *server_targets(_own, "vllm", _MODULE, "vLLMHttpServer"),
        Target(
            _MODULE, "vLLMHttpServer._park_until_admitted", observed(_own, start_parking), since="0.9.1", until="0.9.1"
        ),
        Target(_MODULE, "build_app", wrap_build_app),
    )

    def _patch_more(self, *, by_program: bool) -> None:
        self.patches.when_imported("verl", lambda _: self._patch_vllm())

    def _patch_vllm(self) -> None:
        self.patches.when_imported("vllm.v1.engine.async_llm", self._watch_engine)

    def _watch_engine(self, module: Any) -> None:
        for name in ("generate", "encode"):
            self.patches.wrap(module.AsyncLLM, name, wrap_answers)
