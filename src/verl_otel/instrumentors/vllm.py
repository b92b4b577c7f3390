"""vLLM: verl's server, its gate, and the engine's own generators, which know when the first token came."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor, read_after
from verl_otel.instrumentors.engines import CONTROLS, observed_answers, observed_gate, server_targets
from verl_otel.instrumentors.reading import integer
from verl_otel.patching import patches
from verl_otel.telemetry import engine_load, engines, http_context, replicas
from verl_otel.telemetry.engine_load import Load
from verl_otel.telemetry.engines import EngineRequest, Timing
from verl_otel.telemetry.model_calls import Answer

_NAME: Final = "verl_vllm"
_own: Final = patches(_NAME)


class _Answering:
    """One answer of the engine's, for verl's request that it is for, or for one that came over HTTP."""

    def __init__(self, engine: Any, prompt: Any = None, params: Any = None, *rest: Any, **options: Any) -> None:
        self._engine, self._request_id = engine, options.get("request_id", rest[0] if rest else None)
        # Parts with all before, as verl asks; parts by themselves; or all at the end, which says nothing of the first.
        self._kind = getattr(getattr(options.get("sampling_params", params), "output_kind", None), "name", "CUMULATIVE")
        self._rank: int | None = None
        self._tokens = 0
        self.each: Callable[[Any], None] | None = self._count if self._kind == "DELTA" else None
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

    def began(self, part: Any) -> None:
        """The first part of it came."""
        self._rank = read_rank(self._engine, self._request_id)
        if self._request is not None and self._kind != "FINAL_ONLY":
            self._request.produced()

    def stop(self, last: Any) -> None:
        """All of it is there."""
        self._tell(last)
        if self._own is not None:
            self._own.stop()

    def fail(self, error: BaseException, last: Any) -> None:
        """It ended before."""
        self._tell(last)
        if self._own is not None:
            self._own.fail(error)

    def _count(self, part: Any) -> None:
        self._tokens += read_output(part).output_tokens or 0

    def _tell(self, last: Any) -> None:
        with guard("reading an engine's answer"):
            if self._request is not None:
                self._request.timed(read_timing(last, self._rank))
            if self._own is not None and last is not None:
                answer = read_output(last)
                self._own.answered(replace(answer, output_tokens=self._tokens) if self._tokens else answer)


class _Silent:
    """A stat logger that says nothing: with any, vLLM fills its own registry, whether its log stats are on or off."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """vLLM may ask it for more in a later version."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


def make_silent(vllm_config: Any, engine_index: int = 0) -> _Silent:
    """A factory, as vLLM wants one; it must not be a class, for which vLLM has other uses."""
    return _Silent()


def wrap_engine(original: Callable[..., None]) -> Callable[..., None]:
    """Have the engine's metrics kept, and bridge them."""

    keeps = "stat_loggers" in inspect.signature(original).parameters

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _own.active:
            with guard("bridging vLLM's metrics"):
                from verl_otel.bridges import prometheus  # not at the top: it needs the SDK

                bridged = prometheus.bridge_process(replicas.identity)
                if bridged and keeps and kwargs.get("log_stats") is False and not kwargs.get("stat_loggers"):
                    kwargs["stat_loggers"] = [make_silent]
                engine_load.may_run(read_limit(kwargs.get("vllm_config", args[0] if args else None)))
        original(self, *args, **kwargs)

    return init


def read_limit(config: Any) -> int | None:
    """Requests that the scheduler of an engine core may run at once."""
    return integer(getattr(getattr(config, "scheduler_config", None), "max_num_seqs", None))


def tell_iteration(
    _: Any, logger: Any, scheduler_stats: Any, iteration_stats: Any, *__: Any, engine_idx: int = 0, **___: Any
) -> None:
    """vLLM counts an iteration of one of its cores."""
    if scheduler_stats is not None:
        load = Load(scheduler_stats.num_running_reqs, scheduler_stats.kv_cache_usage)
        engine_load.saw(engine_idx, load, getattr(iteration_stats, "num_preempted_reqs", 0))


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
    in_flight = getattr(getattr(engine, "engine_core", None), "reqs_in_flight", None)
    if not in_flight:
        return None
    known_as = getattr(getattr(engine, "output_processor", None), "external_req_ids", {}).get(request_id) or [
        request_id
    ]
    found = in_flight.get(known_as[0])
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


_MODULE: Final = "verl.workers.rollout.vllm_rollout.vllm_async_server"


class VllmInstrumentor(VerlInstrumentor):
    """Requests in vLLM, from verl's server and from `AsyncLLM` in the same process."""

    name = _NAME
    targets = (
        *server_targets(
            _own,
            "vllm",
            _MODULE,
            "vLLMHttpServer",
            controls=(*CONTROLS, "resume_engine_generation", "open_submission_gate"),
        ),
        Target(
            _MODULE,
            "vLLMHttpServer._park_until_admitted",
            observed_gate(_own, lambda server: bool(server._submission_paused)),  # noqa: SLF001 - verl's gate
            since="0.9.1",
            until="0.9.1",
        ),
    )

    def _patch_more(self, *, by_program: bool) -> None:
        self.patches.when_imported("verl", lambda _: self._patch_vllm())

    def _patch_vllm(self) -> None:
        self.patches.when_imported("vllm.v1.metrics.loggers", self._watch_iterations)
        self.patches.when_imported("vllm.v1.engine.async_llm", self._watch_engine)

    def _watch_iterations(self, module: Any) -> None:
        self.patches.wrap(
            module.PrometheusStatLogger, "record", read_after(_own, "reading an iteration", tell_iteration)
        )

    def _watch_engine(self, module: Any) -> None:
        self.patches.wrap(module.AsyncLLM, "__init__", wrap_engine)
        for name in ("generate", "encode"):
            self.patches.wrap(module.AsyncLLM, name, wrap_answers)
