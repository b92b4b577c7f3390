"""TensorRT-LLM: verl's server. It can't run without a GPU, so contract tests alone hold these hook points."""

from typing import Final

from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.instrumentors.engines import server_targets
from verl_otel.patching import patches

_NAME: Final = "verl_trtllm"


class TrtllmInstrumentor(VerlInstrumentor):
    """Requests in TensorRT-LLM, from verl's server."""

    name = _NAME
    targets = server_targets(
        patches(_NAME),
        "trtllm",
        "verl.workers.rollout.trtllm_rollout.trtllm_async_server",
        "TRTLLMHttpServer",
        since="0.8.0",
    )
