"""The standard variables: what they choose, and one line for each mistake that would hurt."""

import pytest

from verl_otel.delivery.core import Signal
from verl_otel.delivery.destinations import check_sampler, export_interval, read_destinations


def kinds(**environ):
    found, complaints = read_destinations(environ, None)
    return {signal.value: one.kind for signal, one in found.items()}, complaints


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        ("http://collector:4318", "http"),
        ("http://collector:4317", "grpc"),
        ("https://collector", "grpc"),
        ("http://[::1]:4318/prefix", "http"),
    ],
)
def test_without_a_protocol_the_port_decides(endpoint, kind):
    assert kinds(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) == (dict.fromkeys(("traces", "metrics", "logs"), kind), [])


def test_a_protocol_that_is_given_decides():
    found, complaints = kinds(
        OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318",
        OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
        OTEL_EXPORTER_OTLP_LOGS_PROTOCOL="http/protobuf",
    )
    assert found == {"traces": "grpc", "metrics": "grpc", "logs": "http"}
    assert not complaints


def test_exporters_that_are_not_ours_are_left_alone():
    found, complaints = kinds(
        OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="prometheus", OTEL_LOGS_EXPORTER="console"
    )
    assert found == {"logs": "console"}
    assert not complaints


def test_an_endpoint_without_a_scheme_is_named_with_the_remedy():
    found, complaints = kinds(OTEL_EXPORTER_OTLP_ENDPOINT="collector:4318")
    assert found == {}
    (complaint,) = complaints
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in complaint
    assert "use http://collector:4318" in complaint


def test_grpc_may_have_a_bare_endpoint_if_told_whether_to_encrypt():
    found, complaints = kinds(OTEL_EXPORTER_OTLP_ENDPOINT="collector:4317", OTEL_EXPORTER_OTLP_INSECURE="true")
    assert set(found.values()) == {"grpc"}
    assert not complaints


def test_an_unknown_protocol_is_named_and_the_port_decides():
    found, complaints = kinds(
        OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318", OTEL_EXPORTER_OTLP_PROTOCOL="http/json"
    )
    assert set(found.values()) == {"http"}
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" in complaints[0]


@pytest.mark.parametrize(
    ("environ", "usable"),
    [
        ({"OTEL_TRACES_SAMPLER_ARG": "7"}, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "often"}, False),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, True),
        ({"OTEL_TRACES_SAMPLER": "someone_elses", "OTEL_TRACES_SAMPLER_ARG": "host:port"}, True),
        ({}, True),
    ],
)
def test_a_ratio_that_is_none_is_named(environ, usable):
    complaint = check_sampler(environ)
    assert (complaint is None) is usable
    assert usable or "OTEL_TRACES_SAMPLER_ARG" in complaint


def test_the_interval_is_given_in_milliseconds():
    assert export_interval({}) == (10.0, None)
    assert export_interval({"OTEL_METRIC_EXPORT_INTERVAL": "2500"}) == (2.5, None)
    seconds, complaint = export_interval({"OTEL_METRIC_EXPORT_INTERVAL": "soon"})
    assert seconds == 10.0
    assert "OTEL_METRIC_EXPORT_INTERVAL" in complaint


def test_headers_of_a_file_join_those_of_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "headers"
    file.write_text("Authorization=Bearer%20abc\nx-team=rl\n")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-env=1")
    found, _ = read_destinations({}, str(file))
    assert found[Signal.TRACES].headers(Signal.TRACES) == {"authorization": "Bearer abc", "x-team": "rl", "x-env": "1"}
