"""Names of metrics, each with its unit and buckets, and of what a trainer's scalars become."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class MetricName:
    """A metric of ours: name, UCUM unit, description and, for a histogram, bucket bounds in that unit."""

    name: str
    unit: str
    description: str
    buckets: tuple[float, ...] = ()


# A phase takes milliseconds (advantages) to hours (a rollout with tools); the SDK's own bounds are for milliseconds.
_DURATIONS: Final = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    20,
    40,
    60,
    120,
    300,
    600,
    1200,
    1800,
    3600,
    7200,
    14400,
)

# A request takes tens of milliseconds to minutes, its first token less; a token of text hardly a second.
REQUEST_TIMES: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280)
_TOKEN_TIMES: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5)
TOKEN_COUNTS: Final = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_CALLS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
_VERSIONS: Final = (0, 1, 2, 3, 4, 6, 8, 16, 32)
_REWARDS: Final = (-10, -5, -2, -1, -0.5, -0.25, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10)

PHASE_DURATION: Final = MetricName("verl.phase.duration", "s", "Time of a trainer phase, as verl times it.", _DURATIONS)
WORKER_DURATION: Final = MetricName(
    "verl.worker.duration", "s", "Time of a registered worker method on one rank.", _DURATIONS
)
OPEN_DURATION: Final = MetricName(
    "verl.phase.open.duration", "s", "How long each phase or worker call that is open now has been open."
)
# Rollouts. The gen_ai names are OTel's; those that it may rename are in `gen_ai.py`.
INVOKE_AGENT_DURATION: Final = MetricName(
    "gen_ai.invoke_agent.duration", "s", "Time of a trajectory, from its start to its reward.", _DURATIONS
)
INVOKE_AGENT_MODEL_CALLS: Final = MetricName(
    "gen_ai.invoke_agent.inference_calls", "{call}", "Model calls of a trajectory.", _CALLS
)
INVOKE_AGENT_TOOL_CALLS: Final = MetricName(
    "gen_ai.invoke_agent.tool_calls", "{call}", "Tool calls of a trajectory.", _CALLS
)
EXECUTE_TOOL_DURATION: Final = MetricName(
    "gen_ai.execute_tool.duration", "s", "Time of a tool call, by its outcome.", _DURATIONS
)
SERVER_DURATION: Final = MetricName(
    "gen_ai.server.request.duration", "s", "Time of a request in the engine's server, at its gate too.", REQUEST_TIMES
)
SERVER_FIRST_TOKEN: Final = MetricName(
    "gen_ai.server.time_to_first_token", "s", "From the engine's taking a request to its first token.", REQUEST_TIMES
)
SERVER_PER_TOKEN: Final = MetricName(
    "gen_ai.server.time_per_output_token", "s", "For each token after the first of a request.", _TOKEN_TIMES
)
ENGINE_PARKED_DURATION: Final = MetricName(
    "verl.engine.parked.duration", "s", "Time of a request at verl's gate, while weights change.", REQUEST_TIMES
)
ENGINE_QUEUE_DURATION: Final = MetricName(
    "verl.engine.queue.duration", "s", "Time of a request in the engine's own queue, where it says so.", REQUEST_TIMES
)
ENGINE_IN_FLIGHT: Final = MetricName(
    "verl.engine.in_flight",
    "{request}",
    "Requests in a replica's server now, by state: parked at the gate, or running.",
)
REPLICA_BUSY_TIME: Final = MetricName(
    "verl.replica.busy.time", "s", "Time in which a replica had a request to work on."
)
REPLICA_IDLE: Final = MetricName(
    "verl.replica.idle", "1", "Share of the last export interval in which a replica had no request to work on."
)
REPLICA_WEIGHTS: Final = MetricName("verl.replica.weights.version", "", "Version of the weights that a replica has.")
ROLLOUT_TOKENS: Final = MetricName(
    "verl.rollout.tokens", "{token}", "Tokens of a trajectory: prompt, response, and those generated.", TOKEN_COUNTS
)
ROLLOUT_STARTED: Final = MetricName("verl.rollout.started", "{trajectory}", "Trajectories that were started.")
ROLLOUT_ENDED: Final = MetricName("verl.rollout.ended", "{trajectory}", "Trajectories that ended, by outcome.")
ROLLOUT_RESUMES: Final = MetricName(
    "verl.rollout.resumes", "{call}", "Aborted model calls that went on where they were (partial rollouts)."
)
ROLLOUT_RUNNING: Final = MetricName(
    "verl.rollout.running", "{trajectory}", "Trajectories that run now, by what they wait for."
)
ROLLOUT_OLDEST: Final = MetricName(
    "verl.rollout.oldest.duration", "s", "How long the oldest running trajectory has run, and what it waits for."
)
ROLLOUT_LAST_END: Final = MetricName(
    "verl.rollout.last_end.time", "s", "When the last trajectory ended here, in seconds since 1970."
)
ROLLOUT_BATCH: Final = MetricName(
    "verl.rollout.batch.time",
    "s",
    "When the trainer got its last batch, in seconds since 1970; what that is later than the newest "
    "verl.rollout.last_end.time, the trainer's buffer took to notice.",
)
ROLLOUT_UNSAMPLED: Final = MetricName(
    "verl.rollout.unsampled", "{trajectory}", "Trajectories without a trace, by VERL_OTEL_ROLLOUT_RATIO and _CAP."
)
ROLLOUT_DISPATCHED: Final = MetricName(
    "verl.rollout.dispatched", "{trajectory}", "Trajectories that the trainer asked for: what is expected to end."
)
ROLLOUT_GROUPS: Final = MetricName(
    "verl.rollout.groups", "{group}", "Groups in the trainer's buffer, by state, when it last looked."
)
ROLLOUT_RATE: Final = MetricName(
    "verl.rollout.rate", "{group}/s", "Groups that ended for each second since the last that was dispatched."
)
ROLLOUT_TIME_LEFT: Final = MetricName(
    "verl.rollout.time_left", "s", "Until all groups that were dispatched have ended, at that rate."
)
ROLLOUT_SHORT: Final = MetricName(
    "verl.rollout.short_groups", "{group}", "Groups that were trained with fewer trajectories than were asked for."
)
ROLLOUT_MISSING: Final = MetricName(
    "verl.rollout.missing", "{trajectory}", "Trajectories asked for that a batch was trained without."
)
ROLLOUT_STALENESS: Final = MetricName(
    "verl.rollout.staleness",
    "{version}",
    "Versions of the weights between a trajectory's oldest and the step that trains on it.",
    _VERSIONS,
)
GROUP_SIGNALS: Final = MetricName(
    "verl.group.signals", "{group}", "Groups that were trained on, by whether their rewards differ."
)
GROUP_ZERO_VARIANCE: Final = MetricName(
    "verl.group.zero_variance", "1", "Share of a step's groups whose rewards are all equal, by which they are."
)
REWARD_DURATION: Final = MetricName("verl.reward.duration", "s", "Time of a reward call.", _DURATIONS)
REWARD_REPEATS: Final = MetricName(
    "verl.reward.repeated_requests", "{request}", "HTTP requests to reward models that had to be made again."
)
REWARD_VALUE: Final = MetricName(
    "verl.reward.value", "", "Rewards of trajectories, and the numeric fields beside them.", _REWARDS
)
REWARD_STEP: Final = MetricName(
    "verl.reward.step", "", "Mean, least and most of each part of the rewards that the last step trained on."
)
MISMATCH: Final = MetricName(
    "verl.rollout.mismatch",
    "",
    "Mean absolute difference of a token's probability between engine and trainer, by age of the weights and replica.",
)
WEIGHTS_TRANSFERRED: Final = MetricName("verl.weights.transferred", "By", "Weights handed on to the engines.")
QUEUE_DURATION: Final = MetricName("verl.queue.duration", "s", "Time of an operation on TransferQueue.", REQUEST_TIMES)

STEP_ENERGY: Final = MetricName("verl.step.gpu.energy", "J", "Energy of the run's GPUs in the last step.")
GPU_IDLE: Final = MetricName(
    "verl.gpu.idle", "1", "Share of a phase of the last step in which a GPU ran no kernel, by samples of every second."
)
STEP_THROUGHPUT: Final = MetricName(
    "verl.step.throughput",
    "{token}/s",
    "Tokens of the last step a second: of the step (effective), of what trains (trainer), of what generates (rollout).",
)
STEP_GPU_THROUGHPUT: Final = MetricName(
    "verl.step.gpu.throughput", "{token}/s", "The same for each of the trainer's GPUs."
)
STRAGGLER_GAP: Final = MetricName(
    "verl.phase.straggler.gap",
    "s",
    "How much longer the slowest rank worked in a phase of the last step than the median.",
)
STRAGGLER_RANK: Final = MetricName("verl.phase.straggler.rank", "", "Which rank that was.")
ENGINE_RUNNING_PEAK: Final = MetricName(
    "verl.engine.running.peak", "{request}", "Most requests that the engine ran at once, since the last export."
)
ENGINE_RUNNING_LIMIT: Final = MetricName(
    "verl.engine.running.limit", "{request}", "Requests that the engine may run at once (max_num_seqs)."
)
ENGINE_KV_PEAK: Final = MetricName(
    "verl.engine.kv_cache.peak", "1", "Largest share of the KV cache in use, since the last export."
)

RUN_INFO: Final = MetricName("verl.run.info", "", "Always 1; says what this run is.")
RUN_ENDED: Final = MetricName("verl.run.ended", "", "1 once the driver has told of the run's end, by outcome.")
STEP_SNAPSHOT: Final = MetricName(
    "verl.step.snapshot",
    "",
    "The step given to Tracking.log; points with its time belong to that step. Never repeated.",
)
METRIC_NONFINITE: Final = MetricName("verl.metric.nonfinite", "{value}", "Scalars logged as NaN or infinite.")
METRIC_SKIPPED: Final = MetricName("verl.metric.skipped", "{value}", "Logged values that are no number, by type.")
METRIC_CUT: Final = MetricName("verl.metric.cut", "{value}", "Scalars left out beyond VERL_OTEL_MAX_KEYS.")
METRIC_CLASHES: Final = MetricName(
    "verl.metric.clashes", "{key}", "Keys exported as verl.key.* since their name was taken with another unit."
)
TELEMETRY_DROPPED: Final = MetricName("verl.telemetry.dropped", "{item}", "Items that will never arrive, by reason.")
TELEMETRY_MISSED: Final = MetricName(
    "verl.telemetry.missed", "{reading}", "Readings of other people's metrics that gave nothing, by source and why."
)
DOCTOR_CHECK: Final = MetricName("verl.doctor.check", "", "What `verl-otel doctor` sends and reads back; a span too.")
TELEMETRY_ERRORS: Final = MetricName("verl.telemetry.errors", "{error}", "Failures inside verl-otel, by place.")
TELEMETRY_QUEUE: Final = MetricName("verl.telemetry.queue.size", "By", "Encoded bytes waiting to be sent.")
TELEMETRY_RETRIES: Final = MetricName("verl.telemetry.retries", "{request}", "Requests that had to be sent again.")
EXPORTED: Final = {
    "traces": MetricName("otel.sdk.exporter.span.exported", "{span}", "Spans the backend accepted."),
    "metrics": MetricName(
        "otel.sdk.exporter.metric_data_point.exported", "{data_point}", "Data points the backend accepted."
    ),
    "logs": MetricName("otel.sdk.exporter.log.exported", "{log_record}", "Log records the backend accepted."),
}

METRICS: Final = {
    one.name: one
    for one in (*(value for value in list(globals().values()) if isinstance(value, MetricName)), *EXPORTED.values())
}

# Names of a trainer's scalars: the prefix of all, of those that must keep out of ours, and the families that are one.
SCALAR: Final = "verl."
SCALAR_KEPT_APART: Final = "verl.key."
SCALAR_TIMING: Final = "verl.timing"
SCALAR_TIMING_PER_TOKEN: Final = "verl.timing_per_token"  # noqa: S105 - a token of text
SCALAR_AGENT_LOOP: Final = "verl.agent_loop."

# One that would land on, or below, one of these becomes `verl.key.<key>`.
RESERVED: Final = (
    "verl.phase",
    "verl.worker",
    "verl.run",
    "verl.step",
    "verl.metric",
    "verl.lane",
    "verl.telemetry",
    "verl.engine",
    "verl.replica",
    "verl.gpu",
    "verl.host",
    "verl.key",
    *(name for name in METRICS if name.startswith(SCALAR)),
)
