"""What must not be shown is cut, and what people need to read stays."""

import pytest

from verl_otel.ray import reach
from verl_otel.redaction import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:s3cret@host:4318/v1", "http://***@host:4318/v1"),
        ("https://s3cret@host/otlp?api_key=s3cret&x=1", "https://***@host/otlp?***"),
        ("user:s3cret@127.0.0.1:9: no such host", "***@127.0.0.1:9: no such host"),
        ("is the cluster up? http://host:4318 says no", "is the cluster up? http://host:4318 says no"),
        ("127.0.0.1:4317", "127.0.0.1:4317"),
    ],
)
def test_secrets_in_urls(text, shown):
    assert without_secrets(text) == shown


def test_no_secret_travels_in_a_runtime_env_and_no_path_is_kept_back():
    found = reach.worker_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "https://user:s3cret@host",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://host/v1/traces",
            "OTEL_EXPORTER_JAEGER_PASSWORD": "s3cret",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=s3cret",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/etc/key.pem",
            "VERL_OTEL_HEADERS_FILE": "/etc/headers",
        }
    )
    assert "s3cret" not in str(found)
    assert {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "VERL_OTEL_HEADERS_FILE",
    } <= found.keys()
