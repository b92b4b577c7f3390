"""One try to hand one batch to the backend, and what came of it: what `http`, `grpc` and the console have in common.

Endpoint, headers, TLS, compression and time-out are resolved by the OTLP packages' own exporters from the standard
variables. Their retry loops are not used: they give up, forget, and read a partial success as success.

These modules are imported by the sender's thread only.
"""

import os
import sys
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from verl_otel.delivery.core import Accepted, Batch, Outcome, Refused, Signal


class Transport(Protocol):
    """Sends one batch, once."""

    endpoint: str

    def send(self, batch: Batch) -> Outcome:
        """Try once; never raises for what a network or a server may do."""


def is_loopback(url: str) -> bool:
    """Whether the endpoint is on this machine, where no proxy is to be asked."""
    host = (urlsplit(url if "//" in url else f"//{url}").hostname or "").lower()
    return host == "localhost" or host.startswith("127.") or host == "::1"


# What an exporter raises for, and takes from its caller instead.


def variable(signal: Signal, name: str) -> str:
    names = (f"OTEL_EXPORTER_OTLP_{signal.name}_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next((text for one in names if (text := os.environ.get(one, "").strip())), "")


def timeout(signal: Signal) -> float:
    try:
        return float(variable(signal, "TIMEOUT") or 10)
    except ValueError:
        return 10.0


_REJECTED: Final = {
    Signal.TRACES: "rejected_spans",
    Signal.METRICS: "rejected_data_points",
    Signal.LOGS: "rejected_log_records",
}


def accepted(signal: Signal, response: Any) -> Accepted:
    """What a success says: the items that were rejected all the same (OTLP's partial success)."""
    return Accepted(getattr(response.partial_success, _REJECTED[signal]))


class ConsoleTransport:
    """Writes what `ConsoleEncoder` made to standard output."""

    endpoint = "console"

    def send(self, batch: Batch) -> Outcome:
        """Write and flush; a closed output loses the batch."""
        try:
            sys.stdout.write(batch.payload.decode())
            sys.stdout.flush()
        except (OSError, ValueError) as error:
            return Refused(str(error))
        return Accepted()
