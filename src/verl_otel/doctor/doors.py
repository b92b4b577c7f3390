"""Which of the three doors is open, and if not, why not."""

import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Final

from packaging.version import Version

from verl_otel.doctor.findings import Finding, State
from verl_otel.doctor.versions import installed
from verl_otel.settings import Settings

_LINK: Final = "doors"
_LAUNCHER: Final = "opentelemetry-instrument"


def check(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Each door; closed ones are a note, unless all are."""
    if (reason := _switched_off(environ)) is not None:
        yield Finding(_LINK, "all doors", State.FAILED, f"closed: {reason}", "unset it to observe")
        return
    yield _launcher()
    yield Finding(_LINK, "verl_otel.instrument()", State.OK, "open: call it before ray.init")
    yield _plugin(environ)
    disabled = {one.strip() for one in environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")}
    for name in sorted(disabled & _ours()):
        detail = "switched off by OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
        yield Finding(_LINK, name, State.WARNING, detail, "what it reads is not observed")


def _switched_off(environ: Mapping[str, str]) -> str | None:
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED=true"
    return "VERL_OTEL_ENABLED=false" if Settings.read(environ).enabled is False else None


def _ours() -> set[str]:
    found = entry_points(group="opentelemetry_instrumentor")
    return {one.name for one in found if one.value.startswith("verl_otel.")}


def _launcher() -> Finding:
    if not _ours():
        remedy = "install verl-otel again, with --force-reinstall --no-deps"
        return Finding(_LINK, _LAUNCHER, State.FAILED, "closed: the entry points are not installed", remedy)
    if (path := shutil.which(_LAUNCHER)) is None:
        return Finding(_LINK, _LAUNCHER, State.NOTE, "closed: the command is not on PATH", "activate the environment")
    return Finding(_LINK, _LAUNCHER, State.OK, f"open: {path} python -m verl.trainer.main_ppo ...")


def _plugin(environ: Mapping[str, str]) -> Finding:
    name, found = "verl.plugins", installed("verl")
    if found is not None and Version(found) < Version("0.9.0.dev0"):
        return Finding(_LINK, name, State.NOTE, f"closed: verl {found} has no plugins, 0.9.0 has", "use another door")
    if Settings.read(environ).enabled is not True:
        return Finding(_LINK, name, State.NOTE, "closed: VERL_OTEL_ENABLED is not set", "set VERL_OTEL_ENABLED=true")
    return Finding(_LINK, name, State.OK, "open: VERL_OTEL_ENABLED")
