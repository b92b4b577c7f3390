"""One line for people when telemetry doesn't arrive, from the driver only; the rest is counted.

Says what doesn't answer and what to do, the first time an endpoint fails and the first time one refuses, and once more
when it is back.
"""

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from verl_otel.delivery.core import Batch, Outcome, Refused, Unreachable
from verl_otel.guard import say
from verl_otel.redaction import without_secrets


class Diagnosis:
    """Keeps which endpoint already was spoken of."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.down: set[str] = set()
        """Addresses that don't answer at present, each of which was spoken of."""
        self._refused: set[str] = set()

    def report(self, endpoint: str, batch: Batch, outcome: Outcome) -> None:
        """Take an outcome; called on the sender's thread."""
        # Three signals of one backend are one thing to a person.
        place = _address(endpoint)
        if isinstance(outcome, Unreachable):
            if place not in self.down:
                self.down.add(place)
                say(self._why(endpoint, place, without_secrets(outcome.detail)))
        elif isinstance(outcome, Refused):
            if endpoint not in self._refused:
                self._refused.add(endpoint)
                say(without_secrets(_why_refused(endpoint, batch, outcome.detail)))
        elif place in self.down:
            self.down.discard(place)
            say(f"{place} answers again; what was kept is being sent")

    def _why(self, endpoint: str, place: str, detail: str) -> str:
        kept = "telemetry is kept, up to VERL_OTEL_QUEUE_MIB, and sent again; training goes on"
        if detail.startswith("HTTP "):
            return f"{place} takes nothing at present ({detail}); {kept}"
        plain_http = endpoint.startswith("http://")
        answer = None if endpoint.startswith("https://") else _answers_http(place)
        if answer and not plain_http:
            return (
                f"{place} answers HTTP, not gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or give the gRPC port "
                f"(usually 4317) in OTEL_EXPORTER_OTLP_ENDPOINT; {kept}"
            )
        if answer is False and plain_http:
            return (
                f"{place} doesn't answer HTTP ({detail}): if it is a gRPC port, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, "
                f"or give the HTTP port (usually 4318) in OTEL_EXPORTER_OTLP_ENDPOINT; {kept}"
            )
        hint = "" if self._environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") else " (OTEL_EXPORTER_OTLP_ENDPOINT is not set)"
        return f"{place} can't be reached{hint}: {detail}; start a collector there or set the endpoint; {kept}"


def _why_refused(endpoint: str, batch: Batch, detail: str) -> str:
    variable = f"OTEL_{batch.signal.name}_EXPORTER=none"
    return (
        f"{endpoint} refuses {batch.signal.value} ({detail}), so they are dropped and counted: check the path and the "
        f"token, or set {variable} if it doesn't take them"
    )


def _address(endpoint: str) -> str:
    netloc = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").netloc or endpoint
    return netloc.rpartition("@")[2]


def _answers_http(address: str) -> bool | None:
    """Whether what listens there answers a plain HTTP request; None if nothing listens or nothing is answered."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=1) as connection:
            connection.settimeout(1)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = connection.recv(5)
    except (OSError, ValueError):
        return None
    return answer.startswith(b"HTTP/")
