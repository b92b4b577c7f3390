"""What we rely on inside OpenTelemetry's packages, against the installed version."""

import ast
import inspect
from importlib.metadata import distributions
from pathlib import Path

import pytest

from verl_otel import neutrality
from verl_otel.delivery.core import Signal

PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp", "opentelemetry-exporter-http")


def modules_that_draw() -> set[tuple[str, str]]:
    """(module, name) of each module-level import of `random`, or from it, in the SDK and the OTLP exporters."""
    found = set()
    for distribution in distributions():
        if not distribution.name.startswith(PACKAGES):
            continue
        for file in distribution.files or ():
            if file.suffix == ".py":
                found |= {(dotted(file), name) for name in draws(Path(distribution.locate_file(file)))}
    return found


def dotted(file) -> str:
    parts = list(file.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def draws(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.asname or alias.name for alias in node.names if alias.name == "random"]
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            found += [alias.asname or alias.name for alias in node.names]
    return found


def test_every_draw_from_the_global_random_is_replaced():
    known = {(module, name) for module, name, _ in neutrality.DRAWS}
    assert modules_that_draw() - known == set()
    assert modules_that_draw() & known, "found no draw at all: the search is broken"


def test_nothing_draws_inside_a_function_where_a_replacement_would_not_hold():
    for module, _ in modules_that_draw():
        source = inspect.getsource(__import__(module, fromlist=["_"]))
        top = {node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)}
        every = {node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)}
        inside = [node for node in every if "random" in ast.unparse(node)]
        assert len(inside) == len([node for node in top if "random" in ast.unparse(node)])


@pytest.mark.parametrize("signal", list(Signal))
def test_the_grpc_exporter_has_the_stub_headers_timeout_and_endpoint_that_are_read(signal, monkeypatch):
    from verl_otel.delivery.grpc import _exporter

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    exporter = _exporter(signal)()
    assert exporter._endpoint == "127.0.0.1:1"
    assert exporter._timeout == 3
    assert ("a", "b") in tuple(exporter._headers)
    assert callable(exporter._client.Export)
    exporter.shutdown()


@pytest.mark.parametrize("signal", list(Signal))
def test_the_http_exporter_makes_one_request_with_all_its_settings(signal, monkeypatch, tmp_path):
    from verl_otel.delivery.http import HttpTransport

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example:4318/prefix")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "another.pem"))
    transport = HttpTransport(signal, None)
    assert transport.endpoint == f"https://collector.example:4318/prefix/v1/{signal.value}"
    headers = transport._template.headers
    assert (headers["a"], headers["Content-Encoding"]) == ("b", "gzip")
    assert headers["Content-Type"] == "application/x-protobuf"
    assert transport._options["timeout"] == pytest.approx(3, abs=0.1)  # some of it passes before the request
    assert transport._options["verify"] == str(tmp_path / "ca.pem")
    assert HttpTransport(signal, {"c": "d"})._template.headers["c"] == "d"
