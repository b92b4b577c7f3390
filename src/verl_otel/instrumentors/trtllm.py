"""TensorRT-LLM: verl's server. It can't run without a GPU, so contract tests alone hold these hook points."""

from typing import Final

from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.instrumentors.engines import observed_gate, server_targets
from verl_otel.patching import patches

_NAME: Final = "verl_trtllm"
_MODULE: Final = "verl.workers.rollout.trtllm_rollout.trtllm_async_server"


class TrtllmInstrumentor(VerlInstrumentor):
    """Requests in TensorRT-LLM, from verl's server."""

    name = _NAME
    targets = (
        *server_targets(patches(_NAME), "trtllm", _MODULE, "TRTLLMHttpServer", since="0.8.0"),
        Target(
            _MODULE,
            "TRTLLMHttpServer._park_until_allowed",
            observed_gate(patches(_NAME), lambda server: not server._generation_allowed.is_set()),  # noqa: SLF001
            since="0.9.1",
        ),
    )
