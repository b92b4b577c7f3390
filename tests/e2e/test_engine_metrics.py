"""vLLM's and TransferQueue's own metrics by OTLP: the very samples of their pages, and no port opened for it."""

import pytest

from e2e.pages import check
from verl_otel import semconv
from verl_otel.bridges.prometheus import SOURCE

pytestmark = pytest.mark.verl


def test_vllms_metrics_are_those_of_its_page(by_program, record_property):
    record_property("readings between pages", check(by_program))


def test_they_say_whose_they_are(by_program):
    points = [one for one in by_program.capture.points if one.scope == SOURCE]
    assert {one.attributes[semconv.ROLE] for one in points} == {"rollout"}
    assert {one.attributes[semconv.REPLICA] for one in points} == {0}
    assert {one.unit for one in points} == {""}
    assert len({one.resource[semconv.RUN_ID] for one in points}) == 1


def test_transfer_queues_metrics_are_there(by_program):
    names = {one.metric for one in by_program.capture.points if one.scope == "transfer_queue.controller"}
    assert {"tq_controller_request_total", "tq_controller_request_duration_seconds"} <= names
    stored = {one.metric for one in by_program.capture.points if one.scope == "transfer_queue.storage"}
    assert "tq_storage_request_total" in stored
    last = by_program.capture.last("tq_controller_request_total")
    assert sum(sum(series.values()) for series in last.values()) > 0


def test_no_reading_was_missed(by_program):
    assert by_program.capture.last(semconv.TELEMETRY_MISSED.name) == {}
