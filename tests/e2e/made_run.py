"""A small made-up run over OTLP, for what a real one can't be asked for: to log a step now, or to be hostile."""

import json
import time
from dataclasses import dataclass, field

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otlp_made import SIGNALS, event, metrics, pairs, resource, snapshot
from verl_otel import semconv

SECOND = 1_000_000_000
HOSTILE = '<img src=x onerror="window.ran=1"><script>window.ran=2</script>'
TRACE, TRAJECTORY = b"\x01" * 16, b"\x02" * 16


@dataclass
class Made:
    """A span: seconds into the run, and its place in the tree. `failed`: its message."""

    id: int
    name: str
    start: float
    end: float
    attributes: dict = field(default_factory=dict)
    parent: int = 0
    trace: bytes = TRACE
    failed: str = ""
    event: str = ""


def post(url, *told):
    """Send requests; the backend has them when it answers."""
    for one in told:
        name, body = SIGNALS[type(one)], one.SerializeToString()
        headers = {"content-type": "application/x-protobuf"}
        requests.post(f"{url}/v1/{name}", body, headers=headers, timeout=10).raise_for_status()


def begin(url, run, word="made", config=None):
    """A run says that it started, a minute ago, and how it is called; returns when (ns)."""
    start = time.time_ns() - 60 * SECOND
    names = (semconv.RUN_PROJECT, semconv.RUN_MODEL, semconv.RUN_ALGORITHM, semconv.RUN_ENGINE, semconv.RUN_TRAINER)
    about = {**dict.fromkeys(names, word), semconv.RUN_EXPERIMENT: run, semconv.RUN_CONFIG: json.dumps(config or {})}
    post(url, event(run, semconv.EVENT_RUN_START, about, start))
    return start


def log(url, run, step, scalars):
    """The run logs a step now."""
    post(url, snapshot(run, step, scalars, time.time_ns()))


def spans(run, start, made, process="p", **more):
    """A request with these spans of a process."""
    request = ExportTraceServiceRequest()
    told = request.resource_spans.add()
    told.resource.attributes.extend(resource(run, process, **more))
    scope = told.scope_spans.add()
    scope.scope.name = "verl_otel"
    for one in made:
        span = scope.spans.add(trace_id=one.trace, span_id=one.id.to_bytes(8, "big"), name=one.name, kind=1)
        span.parent_span_id = one.parent.to_bytes(8, "big") if one.parent else b""
        span.start_time_unix_nano, span.end_time_unix_nano = (start + int(at * SECOND) for at in (one.start, one.end))
        span.attributes.extend(pairs(one.attributes))
        if one.failed:
            span.status.code, span.status.message = 2, one.failed
        if one.event:
            told = span.events.add(time_unix_nano=span.start_time_unix_nano + SECOND // 10, name=one.event)
            told.attributes.extend(pairs({one.event: one.event}))
    return request


def hostile(url, word=HOSTILE):
    """A run all of whose names and values are `word`; returns its id."""
    run = f"hostile {word}"
    start = begin(url, run, word, {word: word})
    about = {semconv.STEP: 1, semconv.VALIDATION: False}
    ours = {semconv.ROLE: word, semconv.RANK: 0, semconv.LANE: word, **about}
    said = json.dumps([{"role": word, "parts": [{"type": "text", "content": word}]}])
    step = [
        Made(1, "verl.step", 1, 30, {**about, semconv.LANE: "trainer"}),
        Made(2, f"verl.phase.{word}", 1, 20, {**about, semconv.PHASE: word, semconv.LANE: "trainer"}, 1),
        Made(3, f"verl.worker.{word}", 2, 19, {**ours, word: word}, 2, failed=word, event=word),
        Made(4, "verl.replica.busy", 2, 9, {**about, semconv.ROLE: word, semconv.REPLICA: 0, semconv.LANE: word}),
    ]
    rollout = [
        Made(
            11,
            f"invoke_agent {word}",
            2,
            10,
            {
                **about,
                semconv.SAMPLE_UID: word,
                semconv.ROLLOUT_SESSION: 0,
                semconv.ROLLOUT_OUTCOME: word,
                semconv.ROLLOUT_STOP_REASON: word,
                semconv.REWARD: 0.5,
                semconv.REWARD_PART + word: 0.25,
                semconv.GEN_AI_AGENT_NAME: word,
            },
            trace=TRAJECTORY,
        ),
        Made(
            12,
            "chat",
            3,
            6,
            {semconv.GEN_AI_INPUT_MESSAGES: said, semconv.GEN_AI_OUTPUT_MESSAGES: said, **about},
            11,
            TRAJECTORY,
        ),
        Made(
            13,
            f"execute_tool {word}",
            6,
            8,
            {semconv.GEN_AI_TOOL_NAME: word, semconv.GEN_AI_TOOL_RESULT: word, semconv.ERROR_TYPE: word, **about},
            11,
            TRAJECTORY,
            failed=word,
            event=word,
        ),
        Made(
            14,
            f"verl.reward {word}",
            8,
            9,
            {semconv.REWARD_FUNCTION: word, semconv.GEN_AI_SCORE_NAME: word, **about},
            11,
            TRAJECTORY,
        ),
    ]
    more = {"host.name": word, semconv.ROLE: word}
    post(url, spans(run, start, step + rollout, word, **more))
    log(url, run, 1, {"critic/score/mean": 0.5, word: 1.0})
    now = time.time_ns()
    labels = {semconv.ROLE: word, semconv.REPLICA: 0, "model_name": word}
    gpu = {"hw.id": word, "hw.name": word, "hw.type": "gpu"}
    told = [
        ("vllm:num_requests_running", labels, 1.0),
        ("vllm:kv_cache_usage_perc", labels, 0.5),
        ("hw.gpu.utilization", gpu, 0.5),
        ("verl.gpu.info", {**gpu, "hw.vendor": word}, 1.0),
        ("verl.weights.version", {semconv.ROLE: word}, 1.0),
    ]
    post(url, metrics(run, told, now, word))
    ended = {semconv.RUN_OUTCOME: "failed", semconv.ERROR_TYPE: word, "exception.message": word, semconv.ROLE: word}
    stuck = {semconv.PHASE: word, semconv.STUCK_SECONDS: 5.0, semconv.STUCK_STACKS: word, **ours}
    capture = {semconv.PROFILER_TOOL: word, semconv.PROFILER_PATH: f"/tmp/{word}", semconv.STEP: 1}
    post(url, event(run, semconv.EVENT_STUCK, stuck, start + 5 * SECOND))
    post(url, event(run, semconv.EVENT_PROFILE, capture, start + 6 * SECOND))
    post(url, event(run, semconv.EVENT_RUN_END, ended, now))
    return run
