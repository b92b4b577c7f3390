"""The programmatic door: all instrumentors of this package, in the order in which they are entered and left."""

import os
from typing import Final

from verl_otel import neutrality, runtime
from verl_otel.instrumentors.agent_loops import AgentLoopsInstrumentor
from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.instrumentors.buffers import BuffersInstrumentor
from verl_otel.instrumentors.hardware import HardwareInstrumentor
from verl_otel.instrumentors.hydra import HydraInstrumentor
from verl_otel.instrumentors.logs import LogsInstrumentor
from verl_otel.instrumentors.mismatch import MismatchInstrumentor
from verl_otel.instrumentors.model_clients import ModelClientsInstrumentor
from verl_otel.instrumentors.profiler import ProfilerInstrumentor
from verl_otel.instrumentors.ray import RayInstrumentor
from verl_otel.instrumentors.rewards import RewardsInstrumentor
from verl_otel.instrumentors.sft import SftInstrumentor
from verl_otel.instrumentors.sglang import SglangInstrumentor
from verl_otel.instrumentors.timers import TimersInstrumentor
from verl_otel.instrumentors.tools import ToolsInstrumentor
from verl_otel.instrumentors.tracking import TrackingInstrumentor
from verl_otel.instrumentors.trainers import TrainersInstrumentor
from verl_otel.instrumentors.transfer_queue import TransferQueueInstrumentor
from verl_otel.instrumentors.trtllm import TrtllmInstrumentor
from verl_otel.instrumentors.user_spans import UserSpansInstrumentor
from verl_otel.instrumentors.vllm import VllmInstrumentor
from verl_otel.instrumentors.weights import WeightsInstrumentor
from verl_otel.instrumentors.workers import WorkersInstrumentor
from verl_otel.ray import reach
from verl_otel.settings import PREFIX

INSTRUMENTORS: Final[tuple[type[VerlInstrumentor], ...]] = (
    RayInstrumentor,
    HydraInstrumentor,
    LogsInstrumentor,
    TrackingInstrumentor,
    TrainersInstrumentor,
    SftInstrumentor,
    TimersInstrumentor,
    WorkersInstrumentor,
    ProfilerInstrumentor,
    AgentLoopsInstrumentor,
    ModelClientsInstrumentor,
    ToolsInstrumentor,
    RewardsInstrumentor,
    VllmInstrumentor,
    SglangInstrumentor,
    TrtllmInstrumentor,
    BuffersInstrumentor,
    MismatchInstrumentor,
    WeightsInstrumentor,
    TransferQueueInstrumentor,
    UserSpansInstrumentor,
    HardwareInstrumentor,
)


def instrument() -> None:
    """Instrument with every instrumentor that isn't disabled or active already."""
    if reach.in_ray_worker():
        os.environ[f"{PREFIX}ROLE"] = "worker"
    disabled = {one.strip() for one in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")}
    for kind in INSTRUMENTORS:
        instrumentor = kind()
        if not disabled & {kind.name, "*"} and not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument(skip_dep_check=True, by_program=True)


def uninstrument() -> None:
    """Undo in reverse, then end delivery, and only then let the SDK draw where it did."""
    for kind in reversed(INSTRUMENTORS):
        instrumentor = kind()
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()
    runtime.stop()
    reach.forget_run_id()
    neutrality.release()
