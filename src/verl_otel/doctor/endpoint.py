"""The endpoint, from the process that runs this: an empty request of each signal, by each protocol; and its clock.

Runs in the driver and, by Ray, on every node; so it returns plain tuples, and prints nothing.
"""

import os
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from verl_otel.delivery.core import Accepted, Batch, Refused, Signal, Worth
from verl_otel.delivery.destinations import Destination, read_destinations
from verl_otel.delivery.transports import Transport, is_loopback
from verl_otel.doctor.findings import Finding, State
from verl_otel.redaction import without_secrets
from verl_otel.settings import Settings

MOST_SKEW: Final = 2.0
"""Seconds of difference between two clocks that begin to show in a trace of several hosts."""
_NAMES: Final = {"http": "http/protobuf", "grpc": "grpc"}


def check(link: str = "endpoint") -> Iterator[Finding]:
    """Each signal that is ours to deliver: whether its endpoint takes it, and if not, whether another protocol does."""
    destinations, _ = read_destinations(os.environ, Settings.read().headers_file)
    for signal, destination in destinations.items():
        if destination.kind == "console":
            yield Finding(link, signal.value, State.OK, "goes to standard output")
        else:
            yield _try(link, signal, destination)
    url = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if url.startswith("http") and (skew := clock_skew(url)) is not None:
        yield from _judge_skew(link, "its clock", skew, precision=1.0)


def _try(link: str, signal: Signal, destination: Destination) -> Finding:
    start = time.monotonic()
    endpoint, detail = map(without_secrets, send(signal, destination))
    if not detail:
        took = (time.monotonic() - start) * 1000
        return Finding(link, signal.value, State.OK, f"{endpoint} by {_NAMES[destination.kind]} in {took:.0f} ms")
    if "401" in detail or "403" in detail or "unauthenticated" in detail.lower():
        remedy = "it asks for a token: VERL_OTEL_HEADERS_FILE, or OTEL_EXPORTER_OTLP_HEADERS on each node"
        return Finding(link, signal.value, State.FAILED, f"{endpoint} by {_NAMES[destination.kind]}: {detail}", remedy)
    other = "grpc" if destination.kind == "http" else "http"
    _, still = send(signal, Destination(other, destination.headers_file))
    remedy = (
        f"set OTEL_EXPORTER_OTLP_PROTOCOL={_NAMES[other]}: by that it answers"
        if not still
        else "start a collector there, or set OTEL_EXPORTER_OTLP_ENDPOINT; by the other protocol it fails too"
    )
    return Finding(link, signal.value, State.FAILED, f"{endpoint} by {_NAMES[destination.kind]}: {detail}", remedy)


def send(signal: Signal, destination: Destination, body: bytes = b"") -> tuple[str, str]:
    """(endpoint, what went wrong or nothing) of one request, an empty one unless told."""
    try:
        transport = _transport(signal, destination)
        outcome = transport.send(Batch(signal, body, 0, Worth.INTERVAL))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is the answer
        return "", f"{type(error).__name__}: {error}"
    if isinstance(outcome, Accepted):
        return transport.endpoint, ""
    return transport.endpoint, ("refused: " if isinstance(outcome, Refused) else "") + outcome.detail


def _transport(signal: Signal, destination: Destination) -> Transport:
    if destination.kind == "grpc":
        from verl_otel.delivery.grpc import GrpcTransport

        return GrpcTransport(signal, destination.headers(signal))
    from verl_otel.delivery.http import HttpTransport

    return HttpTransport(signal, destination.headers(signal))


def clock_skew(url: str) -> float | None:
    """Seconds that an HTTP server's clock is ahead of ours, by its Date header (whole seconds); None without one."""
    opener = build_opener(ProxyHandler({})) if is_loopback(url) else build_opener()
    before = time.time()
    try:
        with opener.open(Request(url, method="HEAD"), timeout=5) as answer:  # noqa: S310 - an endpoint of the user's
            headers = answer.headers
    except HTTPError as error:  # an answer too, with a date
        headers = error.headers
    except (OSError, ValueError, HTTPException):  # the last where no HTTP is spoken
        return None
    after = time.time()
    if not (date := headers.get("Date")):
        return None
    # The header is cut to a second: half of one is what is missing on average.
    return parsedate_to_datetime(date).timestamp() + 0.5 - (before + after) / 2


def _judge_skew(link: str, name: str, skew: float, precision: float) -> Iterator[Finding]:
    if abs(skew) > MOST_SKEW + precision:
        remedy = "set the clocks by NTP: traces and curves of several hosts are joined by time"
        yield Finding(link, name, State.WARNING, f"{abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}", remedy)
    else:
        yield Finding(link, name, State.OK, f"within {MOST_SKEW + precision:.0f} s of ours")
