"""Pipeline health: what of the telemetry itself was lost or late?"""

from typing import Any

from verl_otel.dashboards.panels import BYTES, COUNT, RUN, SECONDS, Panel, Query, Row, added, make

OURS = Row(
    "In the run's processes",
    [
        Panel(
            "Dropped",
            COUNT,
            "0.",
            [
                Query(
                    added("verl_telemetry_dropped_total", "verl_telemetry_signal, verl_telemetry_reason", window="10m"),
                    "{{verl_telemetry_signal}} {{verl_telemetry_reason}}",
                )
            ],
        ),
        Panel(
            "Waiting to be sent",
            BYTES,
            "Near 0; up to VERL_OTEL_QUEUE_MIB while the backend is away.",
            [Query(f"max by (host_name) (verl_telemetry_queue_size_bytes{{{RUN}}})", "{{host_name}}")],
        ),
        Panel(
            "Sent",
            COUNT,
            "Steady.",
            [
                Query(f"sum(rate(otel_sdk_exporter_span_exported_total{{{RUN}}}[5m]))", "spans"),
                Query(f"sum(rate(otel_sdk_exporter_metric_data_point_exported_total{{{RUN}}}[5m]))", "points"),
                Query(f"sum(rate(otel_sdk_exporter_log_exported_total{{{RUN}}}[5m]))", "log records"),
            ],
        ),
        Panel(
            "Sent again",
            COUNT,
            "0 while the backend answers.",
            [
                Query(
                    added("verl_telemetry_retries_total", "verl_telemetry_signal"),
                    "{{verl_telemetry_signal}}",
                )
            ],
        ),
        Panel(
            "Failures of ours",
            COUNT,
            "Nothing. Each is a bug: what it says goes into an issue.",
            [
                Query(
                    added("verl_telemetry_errors_total", "verl_telemetry_place", window="1h"),
                    "{{verl_telemetry_place}}",
                )
            ],
        ),
        Panel(
            "Readings missed",
            COUNT,
            "0: pages, drivers and registries that hang or are broken.",
            [
                Query(
                    added(
                        "verl_telemetry_missed_total", "verl_telemetry_source, verl_telemetry_miss_reason", window="15m"
                    ),
                    "{{verl_telemetry_source}} {{verl_telemetry_miss_reason}}",
                )
            ],
        ),
        Panel(
            "Scalars left out",
            COUNT,
            "0.",
            [
                Query(
                    f'sum by (__name__) ({{__name__=~"verl_metric_(skipped|cut|clashes)_total",{RUN}}})', "{{__name__}}"
                )
            ],
        ),
        Panel(
            "Processes",
            COUNT,
            "All that the run has.",
            [Query(f"count by (verl_role) (process_memory_usage_bytes{{{RUN}}})", "{{verl_role}}")],
        ),
        Panel(
            "Last heard",
            SECONDS,
            "Below a minute.",
            [Query(f"time() - max by (verl_run_id) (timestamp(verl_run_info{{{RUN}}}))", "{{verl_run_id}}")],
            "stat",
        ),
    ],
)
COLLECTOR = Row(
    "In the collector",
    [
        Panel(
            "Accepted",
            COUNT,
            "Steady.",
            [
                Query(f"sum by (receiver) (rate(otelcol_receiver_accepted_{one}_total[5m]))", f"{one} {{{{receiver}}}}")
                for one in ("spans", "metric_points", "log_records")
            ],
        ),
        Panel(
            "Refused",
            COUNT,
            "0: senders keep what is refused.",
            [
                Query(f"sum by (receiver) (rate(otelcol_receiver_refused_{one}_total[5m]))", f"{one} {{{{receiver}}}}")
                for one in ("spans", "metric_points", "log_records")
            ],
        ),
        Panel(
            "Failed to send",
            COUNT,
            "0 while the stores answer.",
            [
                Query(
                    f"sum by (exporter) (rate(otelcol_exporter_send_failed_{one}_total[5m]))", f"{one} {{{{exporter}}}}"
                )
                for one in ("spans", "metric_points", "log_records")
            ],
        ),
        Panel(
            "Queue",
            COUNT,
            "Near 0; rises while a store is away, and drains.",
            [Query("otelcol_exporter_queue_size", "{{exporter}}")],
        ),
        Panel("Memory", BYTES, "Below its limit.", [Query("otelcol_process_memory_rss_bytes", "resident")]),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make(
        "health", "Pipeline health", "What of the telemetry itself was lost or late, and why?", [OURS, COLLECTOR]
    )
