"""What a real Ray tells of a node: its object store, its metrics agent's page, and the board by which nodes report."""

import time

import pytest

from integration.conftest import ray_of_our_own
from verl_otel.hardware import reports
from verl_otel.hardware.reports import Collector, Reporter
from verl_otel.semconv import hardware as names

pytest.importorskip("ray")
NOW = time.time_ns()


@pytest.fixture(scope="module")
def ray():
    with pytest.MonkeyPatch.context() as patch, ray_of_our_own(patch) as made:
        yield made


def test_the_object_store_is_as_full_as_what_was_put_into_it(ray):
    from verl_otel.ray.object_store import ObjectStore

    kept = ray.put(b"x" * 20_000_000)
    found = {metric.name: metric.data.data_points[0].value for metric in ObjectStore().read(NOW)}
    assert 20_000_000 <= found[names.OBJECT_STORE_USAGE.name] < 30_000_000
    assert found[names.OBJECT_STORE_LIMIT.name] == 100_000_000
    del kept


def test_rays_own_metrics_agent_is_read_wherever_its_port_is(ray):
    from verl_otel.bridges.endpoints import Endpoint

    endpoint = Endpoint("ray")
    deadline = time.monotonic() + 40
    while not (found := {one.name for one in endpoint.read(NOW)} & {"ray_object_store_memory", "ray_node_mem_total"}):
        assert time.monotonic() < deadline
        time.sleep(1)
    assert found
    endpoint.close()


def test_nodes_report_to_the_trainer_each_thing_once(ray, monkeypatch):
    monkeypatch.setattr(reports, "EVERY", 0.05)
    taken = []
    reporter, collector = Reporter("a run", list), Collector("a run", taken.append)
    other = Collector("another run", lambda report: pytest.fail("it is of another run"))
    for one in (reporter, collector, other):
        one.start()
    for number in range(20):
        reporter.hear({"kind": "call", "number": number})
        time.sleep(0.02)
    deadline = time.monotonic() + 10
    while len(numbers := [one["number"] for report in taken for _, one in report["messages"]]) < 20:
        assert time.monotonic() < deadline, numbers
        time.sleep(0.05)
    time.sleep(0.3)
    assert [one["number"] for report in taken for _, one in report["messages"]] == list(range(20))
    for one in (reporter, collector, other):
        one.close()
        one.join(5)
    store = reports._store()
    assert store._internal_kv_list(b"a run/", namespace=reports._NAMESPACE) == []


def test_a_report_that_was_left_behind_is_nobodys(ray):
    """Of an attempt before, whose processes were killed."""
    import json

    store = reports._store()
    old = {"gpus": [[1, {"a": [0.5, 1.0]}]], "messages": [[1, {}]], "host": "h"}
    store._internal_kv_put(b"resumed/node", json.dumps(old).encode(), namespace=reports._NAMESPACE)
    taken = []
    collector = Collector("resumed", taken.append)
    collector.turn(), collector.turn()
    assert [(one["gpus"], one["messages"]) for one in taken] == [([], [])]
    store._internal_kv_del(b"resumed/node", namespace=reports._NAMESPACE)
