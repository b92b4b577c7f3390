"""SGLang: verl's server, and what the engine's tokenizer manager says beside an answer.

verl asks for the whole answer at once, so its first token is known only from the scheduler, which tells of its times
where SGLang's metrics are on.
"""

from collections.abc import Callable
from typing import Any, Final

from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.instrumentors.engines import observed_answers, server_targets
from verl_otel.patching import patches
from verl_otel.telemetry import engines, http_context, replicas
from verl_otel.telemetry.engines import EngineRequest, Timing
from verl_otel.telemetry.model_calls import Answer

_NAME: Final = "verl_sglang"
_own: Final = patches(_NAME)


class _Answering:
    """One answer, for verl's request that it is for, or for one that came over HTTP."""

    def __init__(self, manager: Any, asked: Any = None, *_: Any, **__: Any) -> None:
        found = engines.current()
        self._own = EngineRequest.aside() if found is None else None
        self._request = found or self._own
        if self._request is not None:
            self._request.submitted()
            settings = getattr(manager, "server_args", None)
            # Read only where the user turned the engine's own spans on.
            if getattr(settings, "enable_trace", False) and getattr(asked, "external_trace_header", "") is None:
                asked.external_trace_header = http_context.headers(self._request.recording.span)

    each: Callable[[Any], None] | None = None

    def began(self, answer: Any) -> None:
        """verl takes the first part, which is all of it, and leaves the rest: what is known is told now."""
        meta = read_meta_info(answer)
        if self._request is not None:
            self._request.timed(read_timing(meta))
            if (cached := meta.get("cached_tokens")) is not None:
                self._request.cached(int(cached))

    def stop(self, last: Any) -> None:
        """All of it is there."""
        if self._own is not None:
            self._own.answered(read_meta(read_meta_info(last)))
            self._own.stop()

    def fail(self, error: BaseException, last: Any) -> None:
        """It ended before, or its caller dropped it after the last part."""
        if self._own is not None:
            meta = read_meta_info(last)
            self._own.answered(read_meta(meta))
            if meta.get("finish_reason"):
                self._own.stop()
            else:
                self._own.fail(error)


def read_meta_info(answer: Any) -> dict[str, Any]:
    """What SGLang says beside an answer; nothing of several at once."""
    return answer.get("meta_info") or {} if isinstance(answer, dict) else {}


def read_timing(meta: dict[str, Any]) -> Timing:
    """What `meta_info` says of times: queue_time in s, the others in s since the epoch."""
    received, first, rank = meta.get("request_received_ts"), meta.get("prefill_finished_time"), meta.get("dp_rank")
    return Timing(
        meta.get("queue_time"),
        first - received if first is not None and received is not None else None,
        int(rank) if rank is not None else None,
    )


def read_meta(meta: dict[str, Any]) -> Answer:
    """Tokens and reason, from `meta_info`."""
    reason = meta.get("finish_reason")
    return Answer(
        output_tokens=meta.get("completion_tokens"),
        cached_tokens=meta.get("cached_tokens"),
        finish_reason=str(reason.get("type")) if isinstance(reason, dict) else None,
    )


class SglangInstrumentor(VerlInstrumentor):
    """Requests in SGLang, from verl's server and from `TokenizerManager` in the same process."""

    name = _NAME
    targets = server_targets(
        _own, "sglang", "verl.workers.rollout.sglang_rollout.async_sglang_server", "SGLangHttpServer"
    )

    def _patch_more(self, *, by_program: bool) -> None:
        module = "sglang.srt.managers.tokenizer_manager"
        self.patches.when_imported("verl", lambda _: self.patches.when_imported(module, self._watch_manager))

    def _watch_manager(self, module: Any) -> None:
        # There if the user turned SGLang's metrics on: engine_kwargs.sglang.enable_metrics.
        from verl_otel.bridges import prometheus  # not at the top: it needs the SDK

        prometheus.bridge(prometheus.SOURCE, prometheus.shared_registry, replicas.identity)
        self.patches.wrap(module.TokenizerManager, "generate_request", observed_answers(_own, _Answering))
