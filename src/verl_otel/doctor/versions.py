"""Versions, OpenTelemetry packages of several releases, and packages that don't go together."""

import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from packaging.version import Version

from verl_otel.doctor.findings import Finding, State

_LINK: Final = "versions"
_SHOWN: Final = ("verl-otel", "verl", "ray", "vllm", "sglang", "torch", "wrapt", "opentelemetry-sdk")
_STABLE: Final = (
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-proto",
    "opentelemetry-exporter-otlp-proto-common",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-exporter-otlp-proto-http",
)
_BETA: Final = ("opentelemetry-semantic-conventions", "opentelemetry-instrumentation")
"""Released together, under two numbers: 1.45 goes with 0.66b."""
_OPTIONAL: Final = {
    "nvidia-ml-py": "no GPU metrics, unless another package brings pynvml",
    "opentelemetry-instrumentation-system-metrics": "no host metrics",
    "prometheus-client": "no pages that VERL_OTEL_SCRAPE names",
}
_OLDEST: Final = {"verl": "0.7.1", "opentelemetry-sdk": "1.30"}


def check(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """What is installed, and what of it doesn't fit."""
    yield Finding(_LINK, "python", State.OK, platform.python_version())
    for name in _SHOWN:
        yield _shown(name)
    yield from _optional()
    for family in (_STABLE, _BETA):
        yield from _mixed(family)
    yield from _wandb(environ)


def installed(name: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _shown(name: str) -> Finding:
    if (found := installed(name)) is None:
        missing = State.FAILED if name == "verl" else State.NOTE
        return Finding(
            _LINK, name, missing, "not installed", "run this in verl's environment" if name == "verl" else ""
        )
    if name in _OLDEST and Version(found) < Version(_OLDEST[name]):
        return Finding(_LINK, name, State.WARNING, found, f"{_OLDEST[name]} is the oldest that is supported")
    return Finding(_LINK, name, State.OK, found)


def _optional() -> Iterator[Finding]:
    for name, lost in _OPTIONAL.items():
        if (found := installed(name)) is not None:
            yield Finding(_LINK, name, State.OK, found)
        else:
            yield Finding(_LINK, name, State.NOTE, f"not installed: {lost}", "pip install 'verl-otel[hardware]'")


def _mixed(family: tuple[str, ...]) -> Iterator[Finding]:
    found = {name: here for name in family if (here := installed(name)) is not None}
    if len({Version(one).release[:2] for one in found.values()}) > 1:
        newest = max(found.values(), key=Version)
        detail = "packages of several releases: " + ", ".join(f"{name} {one}" for name, one in found.items())
        remedy = f"install one release of all: pip install {' '.join(f'{name}=={newest}' for name in found)}"
        yield Finding(_LINK, "OpenTelemetry", State.FAILED, detail, remedy)


def _wandb(environ: Mapping[str, str]) -> Iterator[Finding]:
    found = installed("wandb")
    if found is not None and Version(found) >= Version("0.31") and environ.get("OTEL_EXPORTER_OTLP_HEADERS"):
        yield Finding(
            _LINK,
            "wandb",
            State.WARNING,
            f"wandb {found} sends telemetry of its own with OpenTelemetry for Go, which reads "
            "OTEL_EXPORTER_OTLP_HEADERS: your token may go to W&B",
            "put the headers into a file and name it in VERL_OTEL_HEADERS_FILE instead",
        )
