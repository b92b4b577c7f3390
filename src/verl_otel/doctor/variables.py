"""The settings in force, where each comes from, and what is wrong with them; values that may be secret are hidden."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from verl_otel.delivery.destinations import check_sampler, export_interval, read_destinations
from verl_otel.doctor.findings import Finding, State
from verl_otel.redaction import SECRET_NAME, without_secrets
from verl_otel.settings import INTERNAL, PREFIX, Settings, collect_complaints

_LINK: Final = "settings"


def check(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Ours with their source, OpenTelemetry's that are set, and each complaint."""
    with collect_complaints() as complaints:
        settings = Settings.read(environ)
    for one in fields(Settings):
        variable, value = PREFIX + one.name.upper(), getattr(settings, one.name)
        if one.name == "headers_file" and value is not None and not os.access(value, os.R_OK):
            yield Finding(_LINK, variable, State.FAILED, f"{value} can't be read", "make it readable on every node")
        elif variable not in INTERNAL:
            source = "environment" if variable in environ else "default"
            yield Finding(_LINK, variable, State.OK, f"{value} ({source})")
    for name in sorted(one for one in environ if one.startswith("OTEL_")):
        yield Finding(_LINK, name, State.OK, f"{shown(name, environ[name])} (environment)")
    destinations, wrong = read_destinations(environ, settings.headers_file)
    _, interval = export_interval(environ)
    for complaint in (*complaints, *wrong, interval, check_sampler(environ)):
        if complaint:
            yield Finding(_LINK, "complaint", State.WARNING, without_secrets(complaint))
    for signal, destination in destinations.items():
        yield Finding(_LINK, signal.value, State.OK, f"leave by {destination.kind}")


def shown(name: str, value: str) -> str:
    """A variable's value for people: hidden if its name says it may be secret, without a URL's user and password."""
    if SECRET_NAME.search(name):
        return "***"
    return without_secrets(value)
