"""Every name of ours: spans, events, attributes, metrics with unit and buckets. No other module spells one.

Names follow OpenTelemetry's rules (dotted lower case, UCUM units, no unit in a name). Where a published convention has
a name, it is taken (`gen_ai.*`, `service.*`, `host.*`, `otel.sdk.*`); the rest is `verl.*`.
"""

from dataclasses import dataclass
from typing import Final

from opentelemetry.semconv.schemas import Schemas

SCHEMA_URL: Final = Schemas.V1_30_0.value
SCOPE: Final = "verl_otel"

# --- spans ---------------------------------------------------------------------------------------------------------

SPAN_STEP: Final = "verl.step"
SPAN_INIT: Final = "verl.init"
SPAN_VALIDATE: Final = "verl.validate"
SPAN_WARMUP: Final = "verl.warmup"
SPAN_PHASE: Final = "verl.phase."
"""Prefix; the timer's name follows: `verl.phase.update_actor`."""
SPAN_WORKER: Final = "verl.worker."
"""Prefix; the registered method's name follows: `verl.worker.compute_log_prob`."""
SPAN_AGENT: Final = "invoke_agent"
"""Followed by the agent loop's name, as OTel's gen_ai convention has it: `invoke_agent tool_agent`."""
SPAN_GENERATE_CLIENT: Final = "chat"
"""Model call of the agent loop; the gen_ai convention's operation name."""
SPAN_GENERATE_SERVER: Final = "verl.engine.generate"

SPAN_NAMES: Final = frozenset(
    {SPAN_STEP, SPAN_INIT, SPAN_VALIDATE, SPAN_WARMUP, SPAN_GENERATE_CLIENT, SPAN_GENERATE_SERVER}
)
SPAN_PREFIXES: Final = (SPAN_PHASE, SPAN_WORKER, SPAN_AGENT + " ")

# --- events --------------------------------------------------------------------------------------------------------

EVENT_RUN_START: Final = "verl.run.start"
EVENT_RUN_END: Final = "verl.run.end"
EVENT_RUN_RESUME: Final = "verl.run.resume"
EVENT_STUCK: Final = "verl.phase.stuck"
EVENT_PROFILE: Final = "verl.profiler.capture"

EVENTS: Final = (EVENT_RUN_START, EVENT_RUN_RESUME, EVENT_RUN_END, EVENT_STUCK, EVENT_PROFILE)

EVENT_NAME: Final = "event.name"
"""Attribute that has the name where the SDK's log records have none yet."""

# --- attributes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attribute:
    """Type of an attribute's value, and what it says."""

    kind: type
    description: str


ATTRIBUTES: Final[dict[str, Attribute]] = {}
"""Each attribute of ours; a name that ends in a dot is a prefix."""


def _attribute(name: str, kind: type, description: str) -> str:
    ATTRIBUTES[name] = Attribute(kind, description)
    return name


RUN_ID: Final = _attribute("verl.run.id", str, "Identity of the run, the same in all its processes.")
RUN_PROJECT: Final = _attribute("verl.run.project", str, "Project the run belongs to.")
RUN_EXPERIMENT: Final = _attribute("verl.run.experiment", str, "The experiment's name.")
RUN_ALGORITHM: Final = _attribute("verl.run.algorithm", str, "Algorithm, by its advantage estimator.")
RUN_MODEL: Final = _attribute("verl.run.model", str, "Path of the model that is trained.")
RUN_TRAINER: Final = _attribute(
    "verl.run.trainer", str, "Kind of the trainer: v1/<mode>, legacy, one_step_off, fully_async or sft."
)
RUN_ENGINE: Final = _attribute("verl.run.engine", str, "Engine of the rollouts.")
RUN_OUTCOME: Final = _attribute("verl.run.outcome", str, "finished, failed or interrupted.")
RUN_ENDED_IN: Final = _attribute(
    "verl.run.ended_in", str, "Type of the exception that the program ended in; the event's own is the earliest."
)
RUN_ATTEMPT: Final = _attribute("verl.run.attempt", int, "1, and one more each time that the run is resumed.")
RUN_RESUMED_STEP: Final = _attribute("verl.run.resumed_step", int, "Step of the checkpoint that it was resumed from.")
RUN_CONFIG: Final = _attribute("verl.run.config", str, "The resolved configuration as JSON, secrets cut.")
RUN_VERSION: Final = _attribute("verl.run.version.", str, "Version of the distribution that the name ends in.")

RAY_JOB_ID: Final = _attribute("ray.job.id", str, "Ray's id of the job.")
RAY_NODE_ID: Final = _attribute("ray.node.id", str, "Ray's id of the node.")

STEP: Final = _attribute("verl.step", int, "Training step; 0 before the first.")
LOCAL_STEP: Final = _attribute(
    "verl.local_step", int, "Which of the local updates that make one step, from 1; fully async trainers alone."
)
PHASE: Final = _attribute("verl.phase", str, "verl's timer name; on worker spans the phase that asked for the call.")
ROLE: Final = _attribute("verl.role", str, "Role of a worker.")
RANK: Final = _attribute("verl.rank", int, "Rank of a worker; unique only together with its role.")
LANE: Final = _attribute(
    "verl.lane",
    str,
    "Row of a state timeline: trainer, trainer/<rank> under torchrun, <role>/<rank>, replica/<number>.",
)
TRUNCATED: Final = _attribute("verl.truncated", bool, "The span was open at an orderly end, and was ended for it.")
VALIDATION: Final = _attribute("verl.validation", bool, "Whether it is validation.")
WORKER_METHOD: Final = _attribute("verl.worker.method", str, "The registered method.")

STUCK_SECONDS: Final = _attribute("verl.stuck.duration", float, "Seconds that it has been open.")
STUCK_LONGEST: Final = _attribute(
    "verl.stuck.longest", float, "Seconds that the like took at most before, in this process; absent if none did."
)
STUCK_STACKS: Final = _attribute("verl.stuck.stacks", str, "Where every thread of the process is.")

SAMPLE_UID: Final = _attribute("verl.sample.uid", str, "verl's uid of the prompt.")
ROLLOUT_SESSION: Final = _attribute("verl.rollout.session", int, "Number of the trajectory among those of its prompt.")
REPLICA: Final = _attribute("verl.replica", int, "Rank of the rollout replica.")
ENGINE_INPUT_TOKENS: Final = _attribute("verl.engine.input_tokens", int, "Tokens of the prompt, as the engine got it.")
ENGINE_OUTPUT_TOKENS: Final = _attribute("verl.engine.output_tokens", int, "Tokens the engine gave.")
ENGINE_FINISH_REASON: Final = _attribute("verl.engine.finish_reason", str, "verl's stop reason.")

# OTel's gen_ai convention (v1.41 names). Spelled here, since the constants' package deprecates and moves them.
GEN_AI_OPERATION_NAME: Final = _attribute("gen_ai.operation.name", str, "chat or invoke_agent.")
GEN_AI_AGENT_NAME: Final = _attribute("gen_ai.agent.name", str, "Name of the agent loop.")
GEN_AI_PROVIDER_NAME: Final = _attribute("gen_ai.provider.name", str, "The engine.")
GEN_AI_INPUT_TOKENS: Final = _attribute("gen_ai.usage.input_tokens", int, "Tokens of the prompt.")
GEN_AI_OUTPUT_TOKENS: Final = _attribute("gen_ai.usage.output_tokens", int, "Tokens of the answer.")
GEN_AI_FINISH_REASONS: Final = _attribute("gen_ai.response.finish_reasons", tuple, "verl's stop reason.")

# OTel's code convention, stable since 1.33; the oldest constants' package lacks these names.
CODE_FILE: Final = _attribute("code.file.path", str, "File that logged a message.")
CODE_LINE: Final = _attribute("code.line.number", int, "Line that logged it.")
CODE_FUNCTION: Final = _attribute("code.function.name", str, "Function that logged it.")
LOGGER: Final = _attribute("verl.logger", str, "Name of the Python logger that a message was given to.")

METRIC_KEY: Final = _attribute("verl.metric.key", str, "The key given to Tracking.log, as it was.")
STATISTIC: Final = _attribute("verl.statistic", str, "The statistic that verl's key ends in.")
DATA_SOURCE: Final = _attribute("verl.data_source", str, "Data source of a validation score.")
VARIABLE: Final = _attribute("verl.variable", str, "Variable of a validation score.")

PROFILER_TOOL: Final = _attribute("verl.profiler.tool", str, "Tool that profiles.")
PROFILER_STEPS: Final = _attribute("verl.profiler.steps", tuple, "Steps that are profiled.")
PROFILER_RANKS: Final = _attribute("verl.profiler.ranks", tuple, "Ranks that are profiled; empty means all.")
PROFILER_PATH: Final = _attribute("verl.profiler.path", str, "Where the profiler writes.")
PROFILER_DURATION: Final = _attribute("verl.profiler.duration", float, "Seconds that were profiled.")

SIGNAL: Final = _attribute("verl.telemetry.signal", str, "traces, metrics or logs.")
DROP_REASON: Final = _attribute(
    "verl.telemetry.reason",
    str,
    "queue_full: the bound was reached; refused: by the backend; partial_success: rejected by it; exit: not sent "
    "before the end; encoding: not encodable; overload: handed over too fast; none: a zero.",
)
PLACE: Final = _attribute("verl.telemetry.place", str, "What failed.")
VALUE_TYPE: Final = _attribute("verl.telemetry.type", str, "Type of a value that is no number.")

# --- metrics -------------------------------------------------------------------------------------------------------


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

PHASE_DURATION: Final = MetricName("verl.phase.duration", "s", "Time of a trainer phase, as verl times it.", _DURATIONS)
WORKER_DURATION: Final = MetricName(
    "verl.worker.duration", "s", "Time of a registered worker method on one rank.", _DURATIONS
)
OPEN_DURATION: Final = MetricName(
    "verl.phase.open.duration", "s", "How long each phase or worker call that is open now has been open."
)
RUN_INFO: Final = MetricName("verl.run.info", "", "Always 1; says what this run is.")
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
    "verl.gpu",
    "verl.key",
)
