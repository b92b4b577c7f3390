"""Metrics that were seen before are read from their bytes: the rows are those that parsing gives."""

import random

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from otlp_made import BEGIN, SECOND, pairs, resource, snapshot
from verl_otel.local.store.catalog import Catalog
from verl_otel.local.store.rows import Rows
from verl_otel.local.store.shapes import Shapes, only_resource, varint

NAN, INF = float("nan"), float("inf")


def made(dice, time, counts=(3, 4, 5)):
    """A process's export, with all that a point may have."""
    request = ExportMetricsServiceRequest()
    told = request.resource_metrics.add(schema_url="https://example.org")
    told.resource.attributes.extend(resource("run"))
    scope = told.scope_metrics.add()
    scope.scope.name = "one"
    gauge = scope.metrics.add(name="g", unit="s", description="what").gauge
    for number in range(3):
        point = gauge.data_points.add(time_unix_nano=time, as_double=dice.choice([dice.random(), NAN, INF, -0.0]))
        point.attributes.extend(pairs({"a": number, "b": "x"}))
    total = scope.metrics.add(name="s").sum
    total.is_monotonic, total.aggregation_temporality = True, 2
    total.data_points.add(start_time_unix_nano=BEGIN, time_unix_nano=time, as_int=dice.randrange(-(1 << 40), 1 << 40))
    scope = told.scope_metrics.add()
    histogram = scope.metrics.add(name="h", unit="s").histogram
    histogram.aggregation_temporality = 2
    point = histogram.data_points.add(
        start_time_unix_nano=BEGIN,
        time_unix_nano=time,
        count=sum(counts),
        sum=dice.random(),
        min=0.25,
        max=dice.random(),
        bucket_counts=counts,
        explicit_bounds=[0.1, 1e300],
    )
    exemplar = point.exemplars.add(time_unix_nano=time, as_double=dice.random())
    exemplar.trace_id, exemplar.span_id = dice.randbytes(16), dice.randbytes(8)
    histogram.data_points.add(time_unix_nano=time, count=1, bucket_counts=[1, 0], explicit_bounds=[5.0])
    return request


class Reader:
    """Reads requests as a run's writer does, by their bytes where it can; `parsed`: how many had to be parsed."""

    def __init__(self, *, by_bytes=True):
        self.catalog, self.shapes, self.parsed, self._by_bytes = Catalog(), Shapes(), 0, by_bytes

    def read(self, body):
        rows, who = Rows(), only_resource(body)
        process = self.catalog.known(who)
        if not self._by_bytes or process is None or not rows.add_known(who, body, process, self.shapes):
            self.parsed += 1
            told = ExportMetricsServiceRequest.FromString(body).resource_metrics[0]
            process = self.catalog.process(who, told.resource.attributes)
            rows.add_unknown(who, body, told, process, self.catalog, self.shapes)
        numbers = [*rows.numbers]
        for chunk in rows.chunks:
            numbers += zip(chunk.series.tolist(), chunk.times.tolist(), chunk.values.tolist(), strict=True)
        named = [one for one in rows.numbers if one[0] in self.catalog.named]
        named += [one for chunk in rows.chunks for one in chunk.named]
        return repr((numbers, rows.histograms, named, process.first, process.last))  # NaN equals nothing


def test_rows_are_those_of_parsing():
    dice = random.Random(1)
    bodies = [made(dice, BEGIN + number * SECOND).SerializeToString() for number in range(50)]
    fast, slow = Reader(), Reader(by_bytes=False)
    for body in bodies:
        assert fast.read(body) == slow.read(body)
    assert (fast.parsed, slow.parsed) == (2, 50)


def test_the_scalars_of_a_snapshot_are_among_them():
    fast, slow = Reader(), Reader(by_bytes=False)
    for step in range(6):
        body = snapshot("run", step, {"loss": 0.5 + step, "lr": 1e-6}, BEGIN + step * SECOND).SerializeToString()
        assert fast.read(body) == slow.read(body)
    assert fast.parsed == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda one: setattr(one.scope_metrics[0].metrics[0], "name", "q"),
        lambda one: setattr(
            one.scope_metrics[0].metrics[0].gauge.data_points[1].attributes[1].value, "string_value", "y"
        ),
        lambda one: setattr(one.scope_metrics[1].scope, "name", "z"),
        lambda one: one.scope_metrics[1].metrics[0].histogram.data_points[0].explicit_bounds.__setitem__(0, 0.2),
        lambda one: setattr(one.scope_metrics[0].metrics[1].sum, "aggregation_temporality", 1),
        lambda one: setattr(one.scope_metrics[0].metrics[0].gauge.data_points[0], "flags", 1),
        lambda one: setattr(one.scope_metrics[0].metrics[0].gauge.data_points[0], "as_int", 7),
    ],
    ids=["name", "attribute", "scope", "bounds", "temporality", "no value", "whole number"],
)
def test_what_only_looks_alike_is_told_apart(change):
    dice = random.Random(2)
    fast, slow = Reader(), Reader(by_bytes=False)
    for number in range(3):
        body = made(dice, BEGIN + number * SECOND).SerializeToString()
        assert fast.read(body) == slow.read(body)
    for number in range(4):
        request = made(dice, BEGIN + number * SECOND)
        change(request.resource_metrics[0])
        body = request.SerializeToString()
        assert fast.read(body) == slow.read(body)


def test_bytes_that_changed_anywhere_never_give_other_rows_than_parsing():
    dice = random.Random(3)
    fast, slow = Reader(), Reader(by_bytes=False)
    body = made(dice, BEGIN).SerializeToString()
    for _ in range(3):
        fast.read(body)
    slow.read(body)
    compared = 0
    for _ in range(3000):
        bent = bytearray(body)
        bent[dice.randrange(len(body))] = dice.randrange(256)
        bent = bytes(bent)
        try:
            ExportMetricsServiceRequest.FromString(bent)
        except Exception:
            continue  # is never accepted
        if only_resource(bent) != only_resource(body):
            continue
        assert fast.read(bent) == slow.read(bent)
        compared += 1
    assert compared > 1000


def test_a_request_of_several_processes_has_no_only_resource():
    one = made(random.Random(4), BEGIN).SerializeToString()
    assert (
        only_resource(one)
        == ExportMetricsServiceRequest.FromString(one).resource_metrics[0].resource.SerializeToString()
    )
    assert only_resource(one + one) is None
    for cut in (b"", b"\x0a", one[:3], b"\x12\x00"):
        assert only_resource(cut) is None


def test_numbers_of_protobuf():
    assert varint(b"\x00", 0) == (0, 1)
    assert varint(b"\xff\xac\x02", 1) == (300, 3)
