"""Where each signal goes, by the standard OTEL_* variables, with one line for each of their mistakes that would hurt.

The exporters find most mistakes late, in a thread, in other words; here they are found at start. What is unusable is
said once and the standard's default is taken.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from opentelemetry.util.re import parse_env_headers

from verl_otel.delivery.core import Signal
from verl_otel.guard import say

_PROTOCOLS: Final = {"grpc": "grpc", "http/protobuf": "http"}
_HTTP_PORT: Final = 4318


@dataclass(frozen=True)
class Destination:
    """How one signal leaves: `kind` is `http`, `grpc` or `console`."""

    kind: str
    headers_file: str | None = None

    def headers(self, signal: Signal) -> dict[str, str] | None:
        """Headers of VERL_OTEL_HEADERS_FILE beside the variables' own, or None without that file.

        An exporter that is given headers may not read its variables any more.
        """
        if self.headers_file is None:
            return None
        try:
            text = Path(self.headers_file).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            say(f"VERL_OTEL_HEADERS_FILE: {error}; sending without its headers")
            return None
        names = (f"OTEL_EXPORTER_OTLP_{signal.name}_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        _, environment = _first(os.environ, *names)
        return {**parse_env_headers(environment, liberal=True), **_parse_headers(text)}


def _parse_headers(text: str) -> dict[str, str]:
    # Not by the SDK, which shows in a warning what it can't read: a token, for one.
    found, unusable = {}, 0
    for one in text.replace("\n", ",").split(","):
        name, equals, value = one.partition("=")
        value = unquote(value).strip()
        # What a header can't hold, HTTP libraries refuse with the value in their message.
        if equals and name.strip() and value.isprintable():
            found[name.strip().lower()] = value
        elif one.strip():
            unusable += 1
    if unusable:
        say(f"VERL_OTEL_HEADERS_FILE: {unusable} of its lines are no usable key=value and are left out")
    return found


def read_destinations(
    environ: Mapping[str, str], headers_file: str | None
) -> tuple[dict[Signal, Destination], list[str]]:
    """Destinations of the signals that are ours to deliver, and what is wrong with the variables, a line each.

    A signal whose exporter is `none`, `prometheus` or unknown to us is left to whoever serves it, and one whose
    endpoint can't be used isn't sent.
    """
    found: dict[Signal, Destination] = {}
    complaints: list[str] = []
    for signal in Signal:
        names = [one.strip().lower() for one in (environ.get(f"OTEL_{signal.name}_EXPORTER") or "otlp").split(",")]
        if "otlp" in names:
            if (kind := _otlp_kind(environ, signal.name, complaints)) is not None:
                found[signal] = Destination(kind, headers_file)
        elif "console" in names:
            found[signal] = Destination("console")
    return found, list(dict.fromkeys(complaints))


def _otlp_kind(environ: Mapping[str, str], signal: str, complaints: list[str]) -> str | None:
    name, endpoint = _first(environ, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    port = _port(endpoint)
    kind = "http" if port == _HTTP_PORT else "grpc"
    chooser, protocol = _first(environ, f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol.lower() in _PROTOCOLS:
        kind = _PROTOCOLS[protocol.lower()]
    elif protocol:
        complaints.append(
            f"{chooser}={protocol!r} is not supported: use grpc or http/protobuf; {kind} is taken by the port"
        )
    # gRPC takes a bare host and port, if it is told whether to encrypt.
    bare_is_fine = kind == "grpc" and "OTEL_EXPORTER_OTLP_INSECURE" in environ
    if endpoint and not endpoint.lower().startswith(("http://", "https://")) and not bare_is_fine:
        remedy = f"http://{endpoint.split('//')[-1]}"
        complaints.append(
            f"{name}={endpoint!r} has no http:// or https://: use {remedy}; until then nothing is sent there"
        )
        return None
    return kind


def _first(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    for name in names:
        if text := environ.get(name, "").strip():
            return name, text
    return names[-1], ""


def _port(endpoint: str) -> int | None:
    try:
        return urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").port
    except ValueError:
        return None


def check_sampler(environ: Mapping[str, str]) -> str | None:
    """What is wrong with OTEL_TRACES_SAMPLER and its argument, or None."""
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    argument = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if name and not name.endswith("traceidratio"):
        return None  # it has no ratio, or is someone's own
    if argument:
        try:
            usable = 0.0 <= float(argument) <= 1.0
        except ValueError:
            usable = False
        if not usable:
            return (
                f"OTEL_TRACES_SAMPLER_ARG={argument!r} is not a ratio: use a number from 0 to 1, with "
                f"OTEL_TRACES_SAMPLER=parentbased_traceidratio; every step is traced until then"
            )
    return None


def export_interval(environ: Mapping[str, str], default: float = 10.0) -> tuple[float, str | None]:
    """Seconds between metric collections by OTEL_METRIC_EXPORT_INTERVAL (ms), and what is wrong with it, or None."""
    text = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip()
    if not text:
        return default, None
    try:
        seconds = float(text) / 1000
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        return default, f"OTEL_METRIC_EXPORT_INTERVAL={text!r} is not a time in ms: {default * 1000:.0f} is taken"
    return seconds, None
