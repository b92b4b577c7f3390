"""The path behind the endpoint: programs, a series and a trace read back, stores, rules, every panel's query."""

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from verl_otel import semconv
from verl_otel.delivery.core import Signal
from verl_otel.delivery.destinations import read_destinations
from verl_otel.delivery.transports import is_loopback
from verl_otel.doctor import endpoint
from verl_otel.doctor.findings import Finding, State
from verl_otel.redaction import without_secrets
from verl_otel.settings import Settings
from verl_otel.stack import control, panels, plan, supervision
from verl_otel.stack.plan import Plan

_LINK: Final = "stack"
_PATIENCE: Final = 30.0
_SERIES: Final = semconv.DOCTOR_CHECK.name.replace(".", "_")
_TYPE: Final = {"Content-Type": "application/x-protobuf"}

Send = Callable[[Signal, bytes], str]
"""Sends one request; returns what went wrong, or nothing."""


@dataclass(frozen=True)
class Links:
    """Where things go in, and where they can be asked for; `tempo` is None for a trace store of another kind."""

    otlp: str
    send: Send
    prometheus: str
    tempo: str | None


def of_plan(made: Plan) -> Links:
    """The links of a stack that `verl-otel stack` runs. Raises `StackError`."""
    headers = dict(_TYPE)
    if made.token_file:
        headers["Authorization"] = f"Bearer {plan.secret(made.token_file)}"

    def send(signal: Signal, body: bytes) -> str:
        url, verify = f"{made.otlp_url}/v1/{signal.value}", str(made.certificate) if made.certificate else True
        try:
            answer = _session(url).post(url, body, headers=headers, timeout=10, verify=verify)
        except requests.RequestException as error:
            return type(error).__name__
        return "" if answer.ok else f"HTTP {answer.status_code}"

    return Links(made.otlp_url, send, made.prometheus_url, made.tempo_url)


def of_variables(prometheus: str, tempo: str | None) -> Links:
    """The links of a path that others run: in by the standard variables, out where the user says."""
    destinations, _ = read_destinations(os.environ, Settings.read().headers_file)

    def send(signal: Signal, body: bytes) -> str:
        if signal not in destinations:
            return "isn't sent by these variables"
        return endpoint.send(signal, destinations[signal], body)[1]

    where = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "the standard variables' endpoint")
    return Links(without_secrets(where), send, prometheus.rstrip("/"), tempo.rstrip("/") if tempo else None)


def check(links: Links) -> Iterator[Finding]:
    """A series and a trace read back, what the collector says of its stores, rules, and every panel's query."""
    try:
        yield from _sent_and_read_back(links)
        yield from _stores(links)
        yield from _rules(links)
        yield from _panels(links)
    except (requests.RequestException, ValueError) as error:
        yield Finding(
            _LINK, "Prometheus", State.FAILED, f"{links.prometheus}: {type(error).__name__}",
            "is it running, and is that its address?",
        )  # fmt: skip


def check_programs(made: Plan) -> Iterator[Finding]:
    """The programs that `verl-otel stack` looks after."""
    if supervision.states(made.folder) is None:
        yield Finding(_LINK, "programs", State.FAILED, f"none runs in {made.folder}", "verl-otel stack up")
        return
    for one in control.status(made):
        if one.is_ready:
            yield Finding(_LINK, one.name, State.OK, f"ready at {one.address}")
        else:
            remedy = f"verl-otel stack logs {one.name}"
            yield Finding(_LINK, one.name, State.FAILED, f"{one.state.lower()}: {one.detail}", remedy)


def _sent_and_read_back(links: Links) -> Iterator[Finding]:
    mark, trace = secrets.token_hex(8), secrets.token_hex(16)
    for signal, body in ((Signal.METRICS, _series(mark)), (Signal.TRACES, _span(trace))):
        if detail := links.send(signal, body):
            remedy = "its log says more (`verl-otel stack logs collector`)"
            yield Finding(_LINK, "collector", State.FAILED, f"{links.otlp} takes no {signal.value}: {detail}", remedy)
            return
    asked = f'{_SERIES}{{{semconv.DOCTOR_MARK.replace(".", "_")}="{mark}"}}'
    yield _found("a series", "Prometheus", lambda: bool(_query(links, asked)))
    if links.tempo is None:
        yield Finding(
            _LINK, "a trace", State.NOTE, "sent; its store is not Tempo, or not named, and isn't asked for it"
        )
        return
    url = f"{links.tempo}/api/traces/{trace}"
    yield _found("a trace", "Tempo", lambda: _session(url).get(url, timeout=5).status_code == 200)


def _found(what: str, store: str, is_there: Callable[[], bool]) -> Finding:
    start = time.monotonic()
    while time.monotonic() < start + _PATIENCE:
        if is_there():
            took = time.monotonic() - start
            return Finding(_LINK, what, State.OK, f"sent and read back from {store} in {took:.1f} s")
        time.sleep(0.3)
    return Finding(
        _LINK, what, State.FAILED, f"sent, and not in {store} after {_PATIENCE:.0f} s",
        "the collector keeps what a store doesn't take, and its log says why",
    )  # fmt: skip


def _series(mark: str) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=semconv.DOCTOR_CHECK.name)
    point = metric.gauge.data_points.add(time_unix_nano=time.time_ns(), as_double=1)
    point.attributes.add(key=semconv.DOCTOR_MARK).value.string_value = mark
    return request.SerializeToString()


def _span(trace: str) -> bytes:
    request, now = ExportTraceServiceRequest(), time.time_ns()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=semconv.DOCTOR_CHECK.name)
    span.trace_id, span.span_id = bytes.fromhex(trace), secrets.token_bytes(8)
    span.start_time_unix_nano, span.end_time_unix_nano = now - 1_000_000, now
    return request.SerializeToString()


def _stores(links: Links) -> Iterator[Finding]:
    failing = _query(links, "sum by (exporter) (rate({__name__=~'otelcol_exporter_send_failed_.*'}[5m])) > 0")
    for one in failing:
        yield Finding(
            _LINK, one["metric"].get("exporter", "?"), State.FAILED, "the collector gave up on some of its data",
            "verl-otel stack logs collector says why",
        )  # fmt: skip
    waiting = _query(links, "max by (exporter) (otelcol_exporter_queue_size) > 100000")
    for one in waiting:
        detail = f"{float(one['value'][1]):,.0f} items wait for it"
        yield Finding(_LINK, one["metric"]["exporter"], State.WARNING, detail, "its store is slow, or away")
    if not failing and not waiting:
        yield Finding(_LINK, "stores", State.OK, "the collector has given up on nothing, and nothing much waits")


def _rules(links: Links) -> Iterator[Finding]:
    groups = _ask(links, "rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    if not rules:
        yield Finding(_LINK, "rules", State.FAILED, "none is loaded", "start Prometheus with our configuration")
        return
    broken = [rule for rule in rules if rule["health"] == "err"]
    for rule in broken:
        yield Finding(_LINK, f"rule {rule['name']}", State.FAILED, rule.get("lastError", ""), "report it as a defect")
    if not broken:
        yield Finding(_LINK, "rules", State.OK, f"{len(rules)} in {len(groups)} groups")
    for name in sorted({rule["name"] for rule in rules if rule.get("state") == "firing"}):
        yield Finding(_LINK, f"alert {name}", State.NOTE, "fires now", f"docs/alerts.md#{name.lower()}")


def _panels(links: Links) -> Iterator[Finding]:
    if not _query(links, "count(last_over_time(verl_run_info[1h]))"):
        yield Finding(
            _LINK, "panels", State.NOTE, "no run has sent anything for an hour", "verl-otel env, and start one"
        )
        return
    every = list(panels.panel_queries())
    empty = [one for one in every if not _query(links, one.expression)]
    yield Finding(_LINK, "panels", State.OK, f"{len(every) - len(empty)} of {len(every)} queries have data now")
    reasons = Counter(panels.why_empty(one.expression) for one in empty)
    for why, count in reasons.items():
        if why is not None:
            yield Finding(_LINK, "panels", State.NOTE, f"{count} without data, as is to be expected if {why}")
    for one in empty:
        if panels.why_empty(one.expression) is None:
            remedy = "the run is too young for it, doesn't log it, or it is lost on the way"
            yield Finding(_LINK, f"{one.board}: {one.title}", State.WARNING, f"no data: {one.expression}", remedy)


def _query(links: Links, expression: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _ask(links, "query", query=expression)["result"]
    return found


def _ask(links: Links, what: str, **parameters: str) -> Any:
    url = f"{links.prometheus}/api/v1/{what}"
    answer = _session(url).get(url, params=parameters, timeout=10)
    answer.raise_for_status()
    return answer.json()["data"]


def _session(url: str) -> requests.Session:
    """A session; a proxy has nothing to say about this host."""
    session = requests.Session()
    session.trust_env = not is_loopback(url)
    return session
