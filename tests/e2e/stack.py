"""What a collector accepted, and what a Prometheus must hold if all of it was kept."""

from collections import Counter, defaultdict

import requests

from recorder import Recorder, read_capture
from verl_otel import semconv

HEADERS = {"Content-Type": "application/x-protobuf"}
_STALE = 1  # DataPointFlags: no recorded value


class Tap(Recorder):
    """Stands before a collector: hands on each request, answers as that does, and keeps what it accepted."""

    def __init__(self, capture, collector):
        super().__init__(capture)
        self._collector = collector

    def _store(self, signal, body):
        try:
            answer = requests.post(f"{self._collector}/v1/{signal}", body, headers=HEADERS, timeout=10)
        except requests.RequestException:
            return False
        return answer.status_code == 200 and super()._store(signal, body)


def samples_of(capture):
    """How many samples the metrics of a capture file are in Prometheus, by process.

    A number is one; an explicit histogram one for each bucket, and sum and count; a summary one for each quantile, and
    sum and count. Of the same series and millisecond there is one.
    """
    found = defaultdict(dict)
    for signal, request in read_capture(capture):
        if signal == "metrics":
            for resource in request.resource_metrics:
                told = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        for point in getattr(metric, metric.WhichOneof("data")).data_points:
                            if not point.flags & _STALE:
                                labels = tuple(sorted((one.key, str(one.value)) for one in point.attributes))
                                key = (metric.name, scope.scope.name, labels, point.time_unix_nano // 1_000_000)
                                found[told["service.instance.id"]][key] = _samples(metric, point)
    return Counter({process: sum(points.values()) for process, points in found.items()})


def _samples(metric, point):
    kind = metric.WhichOneof("data")
    if kind == "histogram":
        return len(point.bucket_counts) + 1 + point.HasField("sum")
    return len(point.quantile_values) + 2 if kind == "summary" else 1


def samples_in(store, run_id):
    """How many of a run Prometheus holds, by process; without what it, its rules and the collector made of them."""
    rules = "|".join(sorted({rule["name"] for group in store.get("rules")["groups"] for rule in group["rules"]}))
    made = f"target_info|ALERTS.*|traces_span_metrics_.*|{rules}"
    chosen = f'{{{_label(semconv.RUN_ID)}="{run_id}",__name__!~"{made}"}}'
    found = Counter()
    for series in store.query(f"{chosen}[2h]"):
        found[series["metric"]["instance"]] += len(series["values"])
    return found


def scalars_in(store, run_id):
    """verl's scalars as Prometheus has them: (step, key) to values; the snapshot's mark of that time names the step.

    Between steps the last values are told again.
    """
    run = f'{_label(semconv.RUN_ID)}="{run_id}"'
    (marks,) = store.query(f"{_label(semconv.STEP_SNAPSHOT.name)}{{{run}}}[2h]")
    steps = {time: int(value) for time, value in marks["values"]}
    key, found = _label(semconv.METRIC_KEY), defaultdict(list)
    for series in store.query(f'{{{run},{key}!="",__name__!~"verl_metric_.*"}}[2h]'):
        for time, value in series["values"]:
            if time in steps:
                found[steps[time], series["metric"][key]].append(float(value))
    return found


def _label(name):
    return name.replace(".", "_")
