"""OTLP into the embedded backend: what real exporters send is there, and whatever else comes hurts nothing."""

import gzip
import json
import random
import socket
import threading
import zlib

import grpc
import pytest
import requests
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import otlp_made as made
from local_backend import served
from verl_otel import semconv
from verl_otel.local.errors import LocalError
from verl_otel.local.journal import JournalFullError
from verl_otel.local.otlp import requests as bounds
from verl_otel.local.otlp.grpc import GrpcReceiver

PROTOBUF, JSON = "application/x-protobuf", "application/json"
RESOURCE = Resource({"service.instance.id": "p", semconv.RUN_ID: "run"})


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr("verl_otel.local.store.writer.PAUSE", 0.02)
        with served(tmp_path_factory.mktemp("backend")) as found:
            yield found


def post(backend, body, signal="traces", kind=PROTOBUF, **headers):
    named = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return requests.post(f"{backend.url}/v1/{signal}", data=body, headers=named, timeout=20)


def spans(backend, run="run"):
    return [name for (name,) in backend.rows(run, "SELECT name FROM spans")]


@pytest.mark.parametrize("how", ["http", "http gzip", "http deflate", "grpc", "grpc gzip"])
def test_spans_of_the_sdk_are_there_once(backend, how):
    provider = TracerProvider(resource=RESOURCE)
    if how.startswith("http"):
        compression = {"gzip": Compression.Gzip, "deflate": Compression.Deflate}.get(how[5:], Compression.NoCompression)
        exporter = OTLPSpanExporter(f"{backend.url}/v1/traces", compression=compression)
    else:
        packed = grpc.Compression.Gzip if "gzip" in how else grpc.Compression.NoCompression
        exporter = GrpcSpanExporter(backend.grpc, insecure=True, compression=packed)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("mine").start_as_current_span(how, attributes={"n": [1, 2], "t": "ü\n"}) as span:
        span.add_event("e", {"x": 0.5})
        parent = span.get_span_context()
        provider.get_tracer("mine").start_span(f"{how} below").end()
    provider.shutdown()
    query = "SELECT trace, span, attributes, events, scope FROM spans WHERE name = ?"
    [(trace, own, attributes, events, scope)] = backend.rows("run", query, how)
    assert (trace, own) == (f"{parent.trace_id:032x}", f"{parent.span_id:016x}")
    assert json.loads(attributes) == {"n": [1, 2], "t": "ü\n"}
    [event] = json.loads(events)
    assert (event["name"], event["attributes"], scope) == ("e", {"x": 0.5}, "mine")
    query = "SELECT trace, parent FROM spans WHERE name = ?"
    assert backend.rows("run", query, f"{how} below") == [(trace, own)]


def test_metrics_of_the_sdk_are_there(backend):
    exporter = OTLPMetricExporter(f"{backend.url}/v1/metrics")
    buckets = View(instrument_name="sdk.h", aggregation=ExplicitBucketHistogramAggregation([1.0, 2.0]))
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 1e6)], resource=RESOURCE, views=[buckets])
    meter = provider.get_meter("mine")
    meter.create_counter("sdk.c", unit="1").add(3, {"a": "b"})
    meter.create_histogram("sdk.h", unit="s").record(1.5)
    provider.shutdown()
    query = (
        "SELECT kind, monotonic, delta, attributes, value FROM points JOIN series USING (series) WHERE metric = 'sdk.c'"
    )
    assert backend.rows("run", query) == [("sum", True, False, '{"a":"b"}', 3.0)]
    query = (
        "SELECT count, sum, min, max, bounds, counts FROM histograms JOIN series USING (series) WHERE metric = 'sdk.h'"
    )
    assert backend.rows("run", query) == [(1, 1.5, 1.5, 1.5, [1.0, 2.0], [0, 1, 0])]


def as_json(request):
    """OTLP's JSON: ids as hex, as every exporter that speaks it does."""
    told = MessageToDict(request)
    for group in told["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span, own in zip(scope["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True):
                span |= {"traceId": own.trace_id.hex(), "spanId": own.span_id.hex().upper()}
    return told


def test_json_with_ids_in_hex_and_numbers_as_text_is_what_protobuf_is(backend):
    request = made.traces("json", 2, attributes={"n": 1 << 60, "f": 0.1, "l": ["x"]})
    told = as_json(request)
    told["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["kind"] = 3  # by number; the other by name
    told["new field"] = {"traceId": "of another version"}
    answer = post(
        backend, gzip.compress(json.dumps(told).encode()), kind=f"{JSON}; charset=utf-8", Content_Encoding="gzip"
    )
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, JSON, {})
    found = backend.rows("json", "SELECT trace, span, kind, start, attributes FROM spans ORDER BY span")
    own = request.resource_spans[0].scope_spans[0].spans
    assert [one[:4] for one in found] == [
        (span.trace_id.hex(), span.span_id.hex(), kind, made.BEGIN) for span, kind in zip(own, (1, 3), strict=True)
    ]
    assert json.loads(found[0][4]) == {"n": 1 << 60, "f": 0.1, "l": ["x"]}


BOMB = zlib.compress(bytes(bounds.MOST_OUT + 1), 9)
GOOD = made.traces("good").SerializeToString()


@pytest.mark.parametrize(
    ("status", "body", "more"),
    [
        (400, b"no protobuf", {}),
        (400, GOOD[:-3], {}),
        (400, b"{", {"kind": JSON}),
        (400, b"[1]", {"kind": JSON}),
        (400, b'{"resourceSpans": 5}', {"kind": JSON}),
        (400, b"[" * 100_000, {"kind": JSON}),
        (400, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, {"kind": JSON}),
        (400, b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}', {"kind": JSON}),
        (400, b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"x"}]}]}]}', {"kind": JSON}),
        (400, gzip.compress(GOOD)[:-9], {"Content_Encoding": "gzip"}),
        (400, GOOD, {"Content_Encoding": "gzip"}),
        (400, b"\x78\x9c\xff", {"Content_Encoding": "deflate"}),
        (415, GOOD, {"Content_Encoding": "br"}),
        (415, GOOD, {"kind": "text/plain"}),
        (415, GOOD, {"kind": ""}),
        (413, BOMB, {"Content_Encoding": "deflate"}),
        (413, bytes(bounds.MOST_IN + 1), {}),
        (404, GOOD, {"signal": "profiles"}),
        (404, GOOD, {"signal": "traces/x"}),
        (404, GOOD, {"signal": "../v1"}),
    ],
)
def test_what_is_no_request_gets_its_code_and_a_reason(backend, status, body, more):
    answer = post(backend, body, **more)
    assert answer.status_code == status
    if more.get("kind") == JSON:
        assert answer.json()["message"]
    elif more.get("signal") != "../v1":
        assert status_pb2.Status.FromString(answer.content).message
    assert post(backend, GOOD).status_code == 200


def test_only_post_is_taken(backend):
    answer = requests.get(f"{backend.url}/v1/traces", timeout=20)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_body_without_a_length_is_bounded_too(backend):
    chunk = bytes(1 << 20)
    try:
        answer = post(backend, (chunk for _ in range((bounds.MOST_IN >> 20) + 4)))
    except requests.ConnectionError:
        return  # answered and closed while we still sent
    assert answer.status_code == 413


def test_empty_requests_and_a_slash_at_the_end_are_fine(backend):
    assert [post(backend, b"", signal).status_code for signal in ("traces", "metrics", "logs/")] == [200, 200, 200]


def test_clients_that_leave_in_the_middle_hurt_nothing(backend):
    host, port = backend.url.removeprefix("http://").split(":")
    for cut in (b"", b"\r\n\r\n", b"\r\n\r\nhalf"):
        with socket.create_connection((host, int(port))) as one:
            one.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: x\r\nContent-Length: 99" + cut)
    assert post(backend, GOOD).status_code == 200


def test_whatever_bytes_come_over_either_door_the_rest_is_there(backend):
    dice = random.Random(5)
    sound = [
        made.traces("fuzz", 3, attributes={"a": 1, "b": "x"}),
        made.metrics("fuzz", [("m", {"k": "v"}, 0.5), ("n", {}, 3)]),
        made.event("fuzz", "something", {"q": True}),
    ]
    seen = set()
    with grpc.insecure_channel(backend.grpc) as channel, requests.Session() as session:
        for turn in range(300):
            request = dice.choice(sound)
            signal = made.SIGNALS[type(request)]
            body = bytearray(request.SerializeToString())
            for _ in range(dice.randrange(1, 6)):
                body[dice.randrange(len(body))] = dice.randrange(256)
            body = bytes(body[: dice.randrange(len(body) + 1)])
            if turn % 5:
                url, kind = f"{backend.url}/v1/{signal}", dice.choice((PROTOBUF, PROTOBUF, JSON))
                seen.add(session.post(url, data=body, headers={"Content-Type": kind}, timeout=20).status_code)
            else:
                seen.add(export(channel, signal, body))
    assert seen <= {200, 400, None, grpc.StatusCode.INVALID_ARGUMENT}
    assert {200, 400} <= seen
    assert post(backend, made.traces("after fuzz", 2).SerializeToString()).status_code == 200
    assert len(spans(backend, "after fuzz")) == 2
    assert not backend.store.folder.set_aside.exists()


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "a/b", "..", ".", "x" * 5000, "a\0b", "ü", "run.duckdb", "-", " "]
)
def test_a_runs_name_is_only_a_name(backend, hostile):
    assert post(backend, made.traces(hostile, 1).SerializeToString()).status_code == 200
    shown = hostile.replace("\0", "\ufffd")
    assert len(spans(backend, shown)) == 1
    folder = backend.store.folder
    assert folder.database(shown).parent == folder.runs
    assert shown in {one["id"] for one in backend.store.runs.list()}


def test_what_no_column_holds_is_stored_as_near_as_it_can_be(backend):
    attributes = {semconv.STEP: 1 << 40, semconv.RANK: "3", semconv.VALIDATION: 1, "z": "\0", semconv.LANE: ["a"]}
    request = made.traces("odd", 1, attributes=attributes)
    [span] = request.resource_spans[0].scope_spans[0].spans
    span.kind, span.end_time_unix_nano, span.name = 77, (1 << 64) - 1, "odd \0"
    span.attributes.extend(made.pairs({"nan": float("nan"), "list": [float("inf"), "x"]}))
    assert post(backend, request.SerializeToString()).status_code == 200
    query = 'SELECT step, rank, validation, lane, kind, "end", attributes FROM spans'
    [(step, rank, validation, lane, kind, end, attributes)] = backend.rows("odd", query)
    assert (step, rank, validation, lane, kind, end) == (None, 3, None, None, 0, (1 << 63) - 1)
    told = json.loads(attributes)
    assert (told[semconv.STEP], told[semconv.LANE]) == (1 << 40, ["a"])
    assert (told["nan"], told["list"]) == ("NaN", ["Infinity", "x"])


def export(channel, signal, body, metadata=None):
    """The code of a call; None if it is fine."""
    name = {"traces": "trace.v1.Trace", "metrics": "metrics.v1.Metrics", "logs": "logs.v1.Logs"}[signal]
    call = channel.unary_unary(f"/opentelemetry.proto.collector.{name}Service/Export")
    try:
        call(body, metadata=metadata, timeout=20)
    except grpc.RpcError as error:
        return error.code()
    return None


def test_back_pressure_says_when_to_come_again(backend):
    def full(signal, body):
        raise JournalFullError("no room", 7)

    accept, backend.accept = backend.accept, full
    try:
        for kind, body in ((PROTOBUF, GOOD), (JSON, b"{}")):
            answer = post(backend, body, kind=kind)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        with grpc.insecure_channel(backend.grpc) as channel:
            call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            with pytest.raises(grpc.RpcError) as refused:
                call(GOOD, timeout=20)
    finally:
        backend.accept = accept
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    told = status_pb2.Status.FromString(dict(refused.value.trailing_metadata())["grpc-status-details-bin"])
    retry = error_details_pb2.RetryInfo()
    assert told.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 7


def test_over_grpc_too_much_is_refused_and_methods_there_arent_are_unknown(backend):
    with grpc.insecure_channel(backend.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        assert export(channel, "traces", bytes(bounds.MOST_IN + 1)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert export(channel, "logs", b"\xff\xff") == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Import")(b"", timeout=20)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        bomb = made.traces("bomb", attributes={"x": "a" * (bounds.MOST_IN + 10)}).SerializeToString()
        packed = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            packed(bomb, timeout=20, compression=grpc.Compression.Gzip)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_with_a_token_nothing_is_taken_without_it(tmp_path):
    with served(tmp_path, token="s3cret") as backend:
        assert post(backend, GOOD).status_code == 401
        assert post(backend, GOOD, Authorization="Bearer wrong").status_code == 401
        assert post(backend, GOOD, Authorization="Bearer s3cret").status_code == 200
        with grpc.insecure_channel(backend.grpc) as channel:
            assert export(channel, "traces", GOOD) == grpc.StatusCode.UNAUTHENTICATED
            assert export(channel, "traces", GOOD, [("authorization", "Bearer s3cret")]) is None
        assert len(spans(backend, "good")) == 1


def test_two_receivers_never_share_a_port():
    with GrpcReceiver(lambda *_: None, "127.0.0.1", 0) as one, pytest.raises(LocalError, match=str(one.port)):
        GrpcReceiver(lambda *_: None, "127.0.0.1", one.port)


def test_many_clients_at_once_lose_nothing(backend):
    def send(number):
        with requests.Session() as session:
            for _ in range(20):
                body = made.traces("many", 5, process=str(number)).SerializeToString()
                headers = {"Content-Type": PROTOBUF}
                answers.append(
                    session.post(f"{backend.url}/v1/traces", data=body, headers=headers, timeout=20).status_code
                )

    answers = []
    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert answers == [200] * 160
    assert backend.rows("many", "SELECT count(*), count(DISTINCT span), count(DISTINCT process) FROM spans") == [
        (800, 800, 8)
    ]
