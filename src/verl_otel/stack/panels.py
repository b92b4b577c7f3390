"""The panels' queries, as the checked-in dashboards have them, and why one may have no data."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from verl_otel.stack import FILES

WHY_EMPTY: Final[Mapping[str, tuple[str, ...]]] = {
    "the engine is not SGLang": ("sglang:",),
    "nothing is drafted": ("vllm:spec_decode_num_", "verl_rollout_spec_accept_"),
    "the engine is not vLLM": ("vllm:",),
    "there is no critic": (
        "verl_critic_vf_",
        "verl_critic_values",
        "verl_critic_grad_norm",
        "verl_critic_lr",
        "verl_perf_mfu_critic",
    ),
    "there is no reference model": ("verl_actor_kl_loss", "verl_actor_reward_kl_penalty"),
    "the update computes no entropy": ("verl_actor_entropy_loss",),
    "the trainer is not asynchronous": ("verl_fully_async_count_", "verl_rollout_resumes_total"),
    "samples are fetched by key, not consumed": ("tq_partition_consumption_progress",),
    "there are no tools": ("gen_ai_execute_tool_",),
    "there is one rank": ("verl_phase_straggler_", "verl_straggler_gap"),
    "there are no GPUs, or NVML can't be read": (
        "hw_gpu_",
        "hw_energy_",
        "hw_errors_total",
        "hw_power_watts",
        "hw_status",
        "hw_temperature_celsius",
        "verl_gpu_",
        "verl_step_gpu_energy_joules",
    ),
    "there are no NPUs": ("npu_chip_info_",),
    "no process is on a GPU": ("verl_gpu_process_memory_usage_bytes",),
    "the host has no limit of its own": ("verl_host_memory_limit_bytes",),
    "the run is younger than a quarter of an hour": ("avg1h", "stddev1h"),
    "there is no validation": ("verl_val_core", "verl_val_aux"),
    "nothing is pending": ("verl_rollout_time_left_seconds",),
    "nothing was parked, refused, missed or not finite, and nothing failed": (
        "verl_engine_parked_duration_seconds",
        "otelcol_exporter_send_failed_",
        "otelcol_receiver_refused_",
        "verl_telemetry_errors_total",
        "verl_telemetry_missed_total",
        "verl_metric_nonfinite_total",
        "verl_metric_(skipped|cut|clashes)_total",
        "tq_controller_request_errors_total",
        "tq_storage_request_errors_total",
        'error_type!=""',
    ),
}
"""What a run may lack, and what of PromQL needs it."""


@dataclass(frozen=True)
class PanelQuery:
    """PromQL of a panel, for all runs, roles and replicas."""

    board: str
    title: str
    expression: str


def panel_queries() -> Iterator[PanelQuery]:
    """Each query that Prometheus answers; those in TraceQL are left out."""
    for path in sorted((FILES / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                if target["datasource"]["uid"] == "${metrics}":
                    expression = re.sub(r"\$(run|role|replica)\b", ".*", target["expr"])
                    yield PanelQuery(path.stem, panel["title"], expression)


def why_empty(expression: str) -> str | None:
    """What a run that gives this query no data may lack; None if nothing is known."""
    return next((why for why, needs in WHY_EMPTY.items() if any(one in expression for one in needs)), None)
