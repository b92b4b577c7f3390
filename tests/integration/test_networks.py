"""What lies between a process and its backend: TLS, proxies, IPv6, headers, compression; all by standard variables.

Certificates are made by `openssl`. `collector.test` is a name that nothing resolves, so only a proxy gets there.
"""

import inspect
import logging
import shutil
import socket
import subprocess

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

from otlp_server import HttpSink, Relay
from sending import GRPC, HTTP, SINKS, eventually, log_step, make_spans, over_both, send_to, statistics
from verl_otel import runtime
from verl_otel.delivery.core import Signal
from verl_otel.telemetry import events

HOSTS = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:collector.test"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Makes a private CA: its certificate's file, and the files of a certificate and key that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make certificates")

    def make(name):
        folder = tmp_path_factory.mktemp(name)
        (folder / "hosts").write_text(f"{HOSTS}\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
        key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        for command in (
            f"req -x509 {key} -keyout ca.key -out ca.pem -subj /CN={name} -addext keyUsage=critical,keyCertSign",
            f"req -new {key} -keyout key.pem -out request.pem -subj /CN=collector",
            "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -extfile hosts",
        ):
            subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
        return folder / "ca.pem", (folder / "cert.pem", folder / "key.pem")

    return make


@pytest.fixture(scope="module")
def right(authority):
    return authority("right")


@pytest.fixture(scope="module")
def wrong(authority):
    return authority("wrong")


def certificate(file):
    return {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(file)}


# TLS


@over_both
def test_a_private_ca_is_trusted_for_all_signals(monkeypatch, right, wrong, protocol):
    ca, pair = right
    with SINKS[protocol](tls=pair) as sink:
        # `requests` would take this one's word against the user's.
        send_to(monkeypatch, sink.endpoint, protocol, Signal, REQUESTS_CA_BUNDLE=str(wrong[0]), **certificate(ca))
        names = make_spans(0, 3)
        log_step(1)
        events.emit("verl.run.start", {})
        assert runtime.flush(20)
        assert (sink.spans(), sink.steps(), sink.records()) == (names, [1], ["verl.run.start"])


@over_both
def test_a_client_certificate_is_shown(monkeypatch, right, protocol):
    ca, pair = right
    shown = {
        f"OTEL_EXPORTER_OTLP_CLIENT_{kind}": str(file) for kind, file in zip(("CERTIFICATE", "KEY"), pair, strict=True)
    }
    with SINKS[protocol](tls=(*pair, ca)) as sink:
        send_to(monkeypatch, sink.endpoint, protocol, **certificate(ca), **shown)
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert sink.spans() == names


@over_both
@pytest.mark.parametrize("mended", ["server", "file", "missing file"])
def test_a_certificate_that_is_not_trusted_is_said_once_and_costs_nothing_once_it_is(
    monkeypatch, caplog, tmp_path, right, wrong, protocol, mended
):
    file = tmp_path / "ca.pem"
    if mended != "missing file":
        shutil.copy(right[0] if mended == "server" else wrong[0], file)
    with caplog.at_level(logging.WARNING, "verl_otel"):
        with SINKS[protocol](tls=(wrong if mended == "server" else right)[1]) as sink:
            send_to(monkeypatch, sink.endpoint, protocol, **certificate(file))
            names = make_spans(0, 3)
            assert eventually(lambda: statistics().retries.get(Signal.TRACES, 0) >= 2)
            assert sink.spans() == []
            shutil.copy(right[0], file)
            if mended != "server":
                assert eventually(lambda: sink.spans() == names)
        if mended == "server":
            with SINKS[protocol](tls=right[1], port=sink.port) as sink:
                assert eventually(lambda: sink.spans() == names)
        assert eventually(lambda: statistics().queued_items == 0)
    assert statistics().dropped == {}
    first, then = (one for one in caplog.messages if one.startswith("verl-otel"))
    assert "certificate" in first.lower()
    assert "answers again" in then


# Proxies


def proxies(address, *, only=("http", "https", "all", "grpc")):
    """In capitals and not: gRPC reads the latter alone."""
    return {f"{one}_proxy": address for one in only} | {f"{one}_PROXY".upper(): address for one in only}


def skip_if_proxies_cannot_be_bypassed(protocol):
    if protocol == GRPC and "channel_options" not in inspect.signature(OTLPSpanExporter).parameters:
        pytest.skip("this OTLP exporter has no way to say so (it has since 1.36)")


@over_both
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", pytest.param("[::1]", marks=needs_ipv6)])
def test_no_proxy_is_asked_for_loopback_with_tls_either(monkeypatch, right, protocol, host):
    skip_if_proxies_cannot_be_bypassed(protocol)
    with SINKS[protocol](tls=right[1], host="::1" if host == "[::1]" else "127.0.0.1") as sink:
        endpoint = f"https://{host}:{sink.port}"
        send_to(monkeypatch, endpoint, protocol, **certificate(right[0]), **proxies("http://127.0.0.1:1"))
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert sink.spans() == names


def test_a_proxy_is_asked_for_other_hosts_over_http(monkeypatch):
    with HttpSink() as proxy:
        send_to(monkeypatch, "http://collector.test:4318", HTTP, **proxies(proxy.endpoint))
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert proxy.spans() == names
        assert {path for path, _ in proxy.accepted} == {"http://collector.test:4318/v1/traces"}


@pytest.mark.parametrize(("protocol", "scheme"), [(HTTP, "https"), (GRPC, "http"), (GRPC, "https")])
def test_a_proxy_is_asked_for_a_tunnel(monkeypatch, right, protocol, scheme):
    with SINKS[protocol](tls=right[1] if scheme == "https" else None) as sink, Relay(sink, proxy=True) as proxy:
        endpoint = f"{scheme}://collector.test:4317"
        send_to(monkeypatch, endpoint, protocol, **certificate(right[0]), **proxies(proxy.endpoint))
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert sink.spans() == names
        assert {one.rpartition(" ")[0] for one in proxy.asked} == {"CONNECT collector.test:4317"}


@over_both
def test_a_host_that_is_excepted_is_not_asked_of_the_proxy(monkeypatch, protocol):
    excepted = {"no_proxy": "collector.test", "NO_PROXY": "collector.test"}
    with HttpSink() as sink, Relay(sink, proxy=True) as proxy:
        send_to(monkeypatch, "http://collector.test:4318", protocol, **proxies(proxy.endpoint), **excepted)
        make_spans(0, 3)
        assert eventually(lambda: statistics().retries.get(Signal.TRACES, 0) >= 1)
        assert proxy.asked == []
        assert sink.headers == []


@over_both
@needs_ipv6
def test_an_ipv6_address_is_an_endpoint(monkeypatch, protocol):
    with SINKS[protocol](host="::1") as sink:
        send_to(monkeypatch, sink.endpoint, protocol)
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert sink.spans() == names


# Headers


def sent_headers(sink):
    """Of the requests, in small letters."""
    return [{name.lower(): value for name, value in one.items()} for one in sink.headers]


HEADERS = (
    ("authorization=Bearer%20abc", {"authorization": "Bearer abc"}),
    ("Authorization=Bearer abc", {"authorization": "Bearer abc"}),
    ("authorization=Basic dXNlcjpwYXNz==", {"authorization": "Basic dXNlcjpwYXNz=="}),
    (" x-list = 1%2C2 , x-words=a b,x-equals=c=d", {"x-list": "1,2", "x-words": "a b", "x-equals": "c=d"}),
)


@over_both
@pytest.mark.parametrize(("text", "expected"), HEADERS)
@pytest.mark.parametrize("where", ["variable", "variable of the signal", "file"])
def test_headers_arrive_as_they_were_meant(monkeypatch, tmp_path, protocol, text, expected, where):
    file = tmp_path / "headers"
    file.write_text(text)
    given = {
        "variable": {"OTEL_EXPORTER_OTLP_HEADERS": text},
        "variable of the signal": {
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": text,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=of-all",
        },
        "file": {"VERL_OTEL_HEADERS_FILE": str(file)},
    }[where]
    with SINKS[protocol]() as sink:
        send_to(monkeypatch, sink.endpoint, protocol, **given)
        make_spans(0, 1)
        assert runtime.flush(20)
        (headers,) = sent_headers(sink)
    assert {name: headers.get(name) for name in expected} == expected
    assert "of-all" not in headers.values()


@pytest.mark.parametrize("content", ["{}\r\n{}\r\n\r\n", "\ufeff{}\n{}"], ids=["CRLF", "BOM"])
def test_a_headers_file_from_another_system_is_understood(monkeypatch, tmp_path, content):
    file = tmp_path / "headers"
    file.write_bytes(content.format("authorization=Bearer t", "x-team=rl").encode())
    with HttpSink() as sink:
        send_to(monkeypatch, sink.endpoint, HTTP, VERL_OTEL_HEADERS_FILE=str(file))
        make_spans(0, 1)
        assert runtime.flush(20)
        (headers,) = sent_headers(sink)
    assert (headers.get("authorization"), headers.get("x-team")) == ("Bearer t", "rl")


@pytest.mark.parametrize("content", [b"authorization=Bearer \xff\nx-team=rl\n", b"authorization: hush\nx-team=rl\n"])
def test_a_header_that_cannot_be_used_costs_no_span_and_shows_no_value(monkeypatch, caplog, tmp_path, content):
    file = tmp_path / "headers"
    file.write_bytes(content)
    with HttpSink() as sink, caplog.at_level(logging.DEBUG):
        send_to(monkeypatch, sink.endpoint, HTTP, VERL_OTEL_HEADERS_FILE=str(file))
        names = make_spans(0, 1)
        assert runtime.flush(20)
        assert sink.spans() == names
    assert not [one for one in caplog.messages if "hush" in one or "Bearer" in one]
    assert [one for one in caplog.messages if "VERL_OTEL_HEADERS_FILE" in one]


# Values that a protocol, or a version of its exporter, may not know


@pytest.mark.parametrize(
    ("protocol", "variable", "value"),
    [
        *((GRPC, "OTEL_EXPORTER_OTLP_COMPRESSION", value) for value in ("gzip", "none", "deflate", "soon")),
        (HTTP, "OTEL_EXPORTER_OTLP_COMPRESSION", "soon"),
        *((protocol, "OTEL_EXPORTER_OTLP_TIMEOUT", "soon") for protocol in SINKS),
    ],
)
def test_a_value_that_the_exporter_does_not_take_costs_nothing(monkeypatch, protocol, variable, value):
    with SINKS[protocol]() as sink:
        send_to(monkeypatch, sink.endpoint, protocol, **{variable: value})
        names = make_spans(0, 3)
        assert runtime.flush(20)
        assert sink.spans() == names
    assert statistics().dropped == {}
