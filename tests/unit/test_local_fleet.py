"""Made data: always the same, marked as made, and OTLP that hangs together."""

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from verl_otel import semconv
from verl_otel.local import fleet
from verl_otel.local.fleet import Fleet

END = 1_796_127_240_000_000_000
SMALL = Fleet(ranks=16, replicas=4, agents=2, steps=3, history=12, groups=6, sessions=2)


@pytest.fixture(scope="module")
def made():
    return list(fleet.requests(END, SMALL))


@pytest.fixture(scope="module")
def spans(made):
    found = []
    for signal, body in made:
        if signal == "traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def told(span):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def test_the_same_end_and_size_give_the_same_bytes(made):
    def digest(requests):
        return hashlib.sha256(b"".join(body for _, body in requests)).hexdigest()

    assert digest(made) == digest(fleet.requests(END, SMALL))
    assert digest(made) != digest(fleet.requests(END, replace(SMALL, seed=8)))


def test_every_process_says_that_it_is_made(made):
    kinds = {
        "traces": (ExportTraceServiceRequest, "resource_spans"),
        "metrics": (ExportMetricsServiceRequest, "resource_metrics"),
        "logs": (ExportLogsServiceRequest, "resource_logs"),
    }
    instances = set()
    for signal, body in made:
        kind, name = kinds[signal]
        for one in getattr(kind.FromString(body), name):
            attributes = {pair.key: pair.value for pair in one.resource.attributes}
            assert attributes["verl.run.demo"].bool_value is True
            assert attributes["verl.run.id"].string_value == "demo"
            instances.add(attributes["service.instance.id"].string_value)
    assert len(instances) == 1 + 16 + 4 + 2


def test_spans_have_ids_of_their_own_parents_that_are_there_and_end_after_they_begin(spans):
    ids = Counter((span.trace_id, span.span_id) for span in spans)
    assert max(ids.values()) == 1
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= END
        assert not span.parent_span_id or (span.trace_id, span.parent_span_id) in ids


def test_there_is_all_that_views_need(spans):
    names = Counter(span.name for span in spans)
    assert names["verl.step"] == 15
    assert names["verl.worker.update_actor"] == 3 * 16
    assert names["invoke_agent tool_agent"] == 3 * 6 * 2
    assert names["chat"] == names["verl.engine.generate"] > names["invoke_agent tool_agent"]
    assert names["execute_tool search"] > 0
    assert {told(span)["verl.lane"] for span in spans if span.name == "verl.replica.busy"} == {
        f"replica/{number}" for number in range(4)
    }


def test_steps_follow_each_other_and_phases_lie_within(spans):
    roots = sorted((span for span in spans if span.name == "verl.step"), key=lambda span: told(span)["verl.step"])
    assert [told(span)["verl.step"] for span in roots] == list(range(1, 16))
    for before, after in pairwise(roots):
        assert before.end_time_unix_nano <= after.start_time_unix_nano
    by_id = {span.span_id: span for span in roots}
    for span in spans:
        if span.name.startswith("verl.phase."):
            root = by_id[span.parent_span_id]
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano


def test_a_step_names_the_trajectories_that_it_trained_on(spans):
    agents = {(span.trace_id, span.span_id) for span in spans if span.name.startswith("invoke_agent")}
    (gen,) = (span for span in spans if span.name == "verl.phase.gen" and told(span)["verl.step"] == 15)
    assert told(gen)["verl.rollout.consumed.count"] == 12
    assert {(link.trace_id, link.span_id) for link in gen.links} <= agents
    assert len(gen.links) == 12


def test_the_slow_rank_is_slow(spans):
    took = {}
    for span in spans:
        if span.name == "verl.worker.update_actor":
            took.setdefault(told(span)["verl.rank"], []).append(span.end_time_unix_nano - span.start_time_unix_nano)
    assert max(took, key=lambda rank: sum(took[rank])) == SMALL.slow_rank


def test_scalars_carry_verls_keys_at_the_time_of_their_mark(made):
    times, keys = {}, Counter()
    for signal, body in made:
        if signal != "metrics":
            continue
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.gauge.data_points:
                    named = {pair.key: pair.value.string_value for pair in point.attributes}
                    if metric.name == "verl.step.snapshot":
                        times[point.time_unix_nano] = point.as_double
                    elif "verl.metric.key" in named:
                        keys[named["verl.metric.key"], point.time_unix_nano] += 1
    assert sorted(times.values()) == list(range(1, 16))
    assert set(keys.values()) == {1}
    assert {time for _, time in keys} == set(times)
    assert {"critic/score/mean", "actor/entropy", "timing_s/gen", "perf/throughput"} <= {key for key, _ in keys}


def text(item, name):
    return next((one.value.string_value for one in item.attributes if one.key == name), "")


def test_one_event_begins_it_and_one_ends_it(made):
    names = [
        getattr(record, "event_name", "") or text(record, semconv.EVENT_NAME)
        for signal, body in made
        if signal == "logs"
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]
    assert names == ["verl.run.start", "verl.run.end"]
    assert (made[0][0], made[-1][0]) == ("logs", "logs")
