"""docs/reference.md and docs/configuration.md, made from `semconv` and `settings`. usage: python make_reference.py"""

from dataclasses import fields
from pathlib import Path

from verl_otel import semconv
from verl_otel.door import INSTRUMENTORS
from verl_otel.settings import INTERNAL, PREFIX, Settings

HERE = Path(__file__).resolve().parent
TYPES = {str: "string", int: "int", float: "double", bool: "boolean", tuple: "array"}


def reference() -> str:
    """Names, types and units."""
    lines = [
        "# Reference",
        "",
        "Made by `make reference` from `semconv/`; a test holds it to that.",
        "",
        "## Spans",
        "",
    ]
    lines += [f"- `{name}`" for name in sorted(semconv.SPAN_NAMES)]
    lines += [f"- `{prefix}<name>`" for prefix in semconv.SPAN_PREFIXES]
    lines += ["", "## Events", ""]
    lines += [f"- `{name}`" for name in semconv.EVENTS]
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
    lines += ["", "## Attributes", "", "A name that ends in a dot is a prefix. `verl.run.end` of a failed run has the"]
    lines += ["standard `exception.type` and `exception.message`, and every signal the standard resource attributes"]
    lines += [
        "`service.name`, `service.instance.id`, `host.name` and `process.pid` beside `verl.run.id` and `ray.*`.",
        "",
    ]
    lines += ["| name | type | what it says |", "|---|---|---|"]
    for name, one in sorted(semconv.ATTRIBUTES.items()):
        lines.append(f"| `{name}` | {TYPES[one.kind]} | {one.description} |")
    return "\n".join(lines) + "\n"


CONFIGURATION = """# Configuration

Made by `make reference` from `settings.py`; a test holds it to that. A value that can't be used is named once, in the
driver, and the default is taken. Flags take true/false, 1/0, yes/no and on/off.

| variable | default | what it does |
|---|---|---|
{rows}

`OTEL_PYTHON_DISABLED_INSTRUMENTATIONS` takes any of these, or `*`: {names}.
Without `verl_ray` workers aren't reached, and only the driver's process is observed.

In a program, `verl_otel.flush(seconds)` sends what this process has.

## Standard variables

These are honoured, and reach every worker: `OTEL_EXPORTER_OTLP_*` (but the credential providers and the default
histogram aggregation), `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` (default `verl`), `OTEL_TRACES_SAMPLER` (each
step's and each trajectory's trace is sampled as a whole), `OTEL_METRIC_EXPORT_INTERVAL` (default 10 s),
`OTEL_METRICS_EXEMPLAR_FILTER`, and `OTEL_{{TRACES,METRICS,LOGS}}_EXPORTER`: `otlp` and `console` are delivered by
verl-otel, `none` sends nothing, and verl-otel ignores any other value. In a list, `otlp` wins.

- Without `OTEL_EXPORTER_OTLP_PROTOCOL` the port decides: 4318 is HTTP, any other, or none, is gRPC. For a vendor's
  `https://` endpoint set `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf`, unless it speaks gRPC. Without an endpoint it is
  gRPC to `localhost:4317` of each node.
- A loopback endpoint bypasses proxy variables (over gRPC with OTLP exporters from 1.36 on).
- `service.instance.id`, `host.*` and `process.*` are each process's own, whatever `OTEL_RESOURCE_ATTRIBUTES` says.
- Header values never travel with the job: set them on the nodes before `ray start`, or name a file that has the same
  path on every node in `VERL_OTEL_HEADERS_FILE`. A process reads it when it first sends.
- `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` applies to the histograms; counters of verl-otel's own stay
  cumulative.
- Not used: `OTEL_BSP_*`, `OTEL_BLRP_*`, `OTEL_PROPAGATORS` (calls over Ray always carry W3C trace context), and the
  protocol `http/json`.
"""


def configuration() -> str:
    """Every variable of ours."""
    rows = []
    for one in (one for one in fields(Settings) if PREFIX + one.name.upper() not in INTERNAL):
        default = "" if one.default is None else f"`{str(one.default).lower()}`"
        rows.append(f"| `{PREFIX}{one.name.upper()}` | {default} | {one.metadata['help']} |")
    names = ", ".join(f"`{kind.name}`" for kind in INSTRUMENTORS)
    return CONFIGURATION.format(rows="\n".join(rows), names=names)


if __name__ == "__main__":
    (HERE / "reference.md").write_text(reference())
    (HERE / "configuration.md").write_text(configuration())
