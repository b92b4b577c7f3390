"""docs/reference.md and docs/configuration.md, made from `semconv` and `settings`. usage: python make_reference.py"""

from dataclasses import fields
from pathlib import Path

from verl_otel import semconv
from verl_otel.settings import PREFIX, Settings

HERE = Path(__file__).resolve().parent
TYPES = {str: "string", int: "int", float: "double", bool: "boolean", tuple: "array"}


def reference() -> str:
    """Names, types and units."""
    lines = [
        "# Reference",
        "",
        "Made by `make reference` from `semconv.py`; a test holds it to that.",
        "",
        "## Spans",
        "",
    ]
    lines += [f"- `{name}`" for name in sorted(semconv.SPAN_NAMES)]
    lines += [f"- `{prefix}<name>`" for prefix in semconv.SPAN_PREFIXES]
    lines += ["", "## Events", ""]
    lines += [f"- `{name}`" for name in (semconv.EVENT_RUN_START, semconv.EVENT_RUN_END, semconv.EVENT_PROFILE)]
    lines += [
        "",
        "## Metrics",
        "",
        "verl's own scalars are in [metrics](metrics.md).",
        "",
        "| name | unit | what it says |",
    ]
    lines.append("|---|---|---|")
    for name, metric in sorted(semconv.METRICS.items()):
        lines.append(f"| `{name}` | {f'`{metric.unit}`' if metric.unit else ''} | {metric.description} |")
    lines += ["", "## Attributes", "", "A name that ends in a dot is a prefix.", "", "| name | type |", "|---|---|"]
    lines += [f"| `{name}` | {TYPES[kind]} |" for name, kind in sorted(semconv.ATTRIBUTES.items())]
    return "\n".join(lines) + "\n"


CONFIGURATION = """# Configuration

Made by `make reference` from `settings.py`; a test holds it to that. A value that can't be used is named once, in the
driver, and the default is taken.

| variable | default | what it does |
|---|---|---|
{rows}

Everything standard is configured by the standard variables, which reach every worker: `OTEL_EXPORTER_OTLP_*`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` (default `verl`), `OTEL_TRACES_SAMPLER` (for whole step traces),
`OTEL_METRIC_EXPORT_INTERVAL` (default 10 s), `OTEL_{{TRACES,METRICS,LOGS}}_EXPORTER`: `otlp` and `console` are
delivered by verl-otel, `none` is none, and any other is left to whoever serves it.

- Without `OTEL_EXPORTER_OTLP_PROTOCOL` the port decides: 4318 is HTTP, any other gRPC.
- A loopback endpoint bypasses proxy variables (over gRPC with OTLP exporters from 1.36 on).
- `service.instance.id`, `host.*` and `process.*` are each process's own, whatever `OTEL_RESOURCE_ATTRIBUTES` says.
- Header values never travel with the job: set them on the nodes, or use `VERL_OTEL_HEADERS_FILE`.
"""


def configuration() -> str:
    """Every variable of ours."""
    rows = []
    for one in fields(Settings):
        default = "" if one.default is None else f"`{one.default}`"
        rows.append(f"| `{PREFIX}{one.name.upper()}` | {default} | {one.metadata['help']} |")
    return CONFIGURATION.format(rows="\n".join(rows))


if __name__ == "__main__":
    (HERE / "reference.md").write_text(reference())
    (HERE / "configuration.md").write_text(configuration())
