"""Parquet and OTLP's JSON: read back, they say what the database says."""

import json
import math

import duckdb
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from small_run import SECOND, START, SmallRun
from verl_otel.local import export, otlp_json, selection

IS_OLD = "event_name" not in LogRecord.DESCRIPTOR.fields_by_name
"""The oldest protocol knows no names of events: they are attributes then."""
KINDS = {
    "resourceSpans": ExportTraceServiceRequest,
    "resourceMetrics": ExportMetricsServiceRequest,
    "resourceLogs": ExportLogsServiceRequest,
}


def count(connection, table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_parquet_has_every_table_whole(tmp_path):
    run = SmallRun().fill()
    assert export.parquet(run.connection, tmp_path / "it's here") == len(export.TABLES)
    for table in export.TABLES:
        written = str(tmp_path / "it's here" / f"{table}.parquet").replace("'", "''")
        both = f"SELECT * FROM '{written}' EXCEPT ALL SELECT * FROM {table}"
        assert run.connection.execute(f"SELECT count(*) FROM ({both})").fetchone() == (0,)
        assert count(run.connection, f"'{written}'") == count(run.connection, table) > 0


def test_tables_are_all_that_the_schema_has():
    run = SmallRun()
    tables = {name for (name,) in run.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert set(export.TABLES) | {"journal_read"} == tables


def test_parquet_of_a_step(tmp_path):
    run = SmallRun().fill()
    selection.narrow(run.connection, 1)
    export.parquet(run.connection, tmp_path)
    read = duckdb.connect()
    counts = {table: count(read, f"'{tmp_path / table}.parquet'") for table in export.TABLES}
    assert (counts["scalars"], counts["spans"], counts["trajectories"]) == (1, 10, 3)
    # What was measured during it; step 2 has the other point, and the run began before both.
    assert (counts["points"], counts["histograms"], counts["events"]) == (2, 1, 1)
    assert (counts["processes"], counts["series"]) == (2, 3)


def requests(path):
    """As protobuf reads them: with a field that it doesn't know it fails."""
    found = []
    for line in path.read_text().splitlines():
        told = json.loads(line)
        (kind,) = told
        # OTLP has ids in hex, protobuf's JSON in base64: of 32 and 16 digits both can be read, and nothing is lost.
        found.append(json_format.ParseDict(told, KINDS[kind](), ignore_unknown_fields=IS_OLD))
    return found


def test_otlp_json_is_what_protobuf_takes(tmp_path):
    run = SmallRun().fill()
    number = export.otlp(run.connection, tmp_path / "run.jsonl")
    found = requests(tmp_path / "run.jsonl")
    assert number == len(found)
    spans = [
        span
        for one in found
        if isinstance(one, ExportTraceServiceRequest)
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len(spans) == count(run.connection, "spans")
    failed = [one for one in spans if one.status.code]
    assert {(one.name, one.status.code, one.status.message) for one in failed} == {("chat", 2, "no")}
    assert sum(len(one.links) for one in spans) == 2
    assert min(one.start_time_unix_nano for one in spans) == START + 100 * SECOND


def test_otlp_json_keeps_kinds_of_metrics_and_what_is_no_number(tmp_path):
    run = SmallRun().fill()
    export.otlp(run.connection, tmp_path / "run.jsonl")
    metrics = {}
    for one in requests(tmp_path / "run.jsonl"):
        for resource in getattr(one, "resource_metrics", ()):
            told = {pair.key: pair.value.WhichOneof("value") for pair in resource.resource.attributes}
            kinds = {"service.name": "string_value", "process.pid": "int_value", "ratio": "double_value"}
            assert told == {**kinds, "made": "array_value"}
            for scope in resource.scope_metrics:
                metrics |= {(scope.scope.name, metric.name): metric for metric in scope.metrics}
    score = metrics["verl_otel", "verl.critic.score"].gauge.data_points
    assert score[0].as_double == 0.25
    assert math.isnan(score[1].as_double)
    assert score[0].attributes[0].value.int_value == 1
    counted = metrics["other", "verl.count"]
    assert (counted.unit, counted.sum.is_monotonic, counted.sum.aggregation_temporality) == ("{item}", True, 2)
    histogram = metrics["verl_otel", "gen_ai.x"].histogram
    (point,) = histogram.data_points
    assert histogram.aggregation_temporality == 1
    assert (point.count, point.sum, list(point.bucket_counts)) == (3, 4.5, [1, 1, 1])


def test_otlp_json_writes_ids_in_hex_and_long_numbers_as_text():
    run = SmallRun().fill()
    first = next(otlp_json.requests(run.connection))
    span = first["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert span["traceId"] == f"{1:032x}"
    assert span["startTimeUnixNano"] == str(START + 100 * SECOND)
    assert otlp_json.value({"a": [1, 2.5, None, float("inf")]}) == {
        "kvlistValue": {
            "values": [
                {
                    "key": "a",
                    "value": {
                        "arrayValue": {
                            "values": [{"intValue": "1"}, {"doubleValue": 2.5}, {}, {"doubleValue": "Infinity"}]
                        }
                    },
                }
            ]
        }
    }
