"""Databases of runs for tests and benchmarks: a few rows by hand, or millions made by SQL; no process, no OTLP."""

import json
from pathlib import Path

import duckdb

import verl_otel.local.store
from verl_otel import semconv

SCHEMA = Path(verl_otel.local.store.__file__).with_name("schema.sql")
SECOND = 1_000_000_000
ZERO = 1_800_000_000 * SECOND
"""When made runs begin, ns since the epoch."""


def at(seconds):
    """ns since the epoch, so many seconds into a made run."""
    return ZERO + int(seconds * SECOND)


def ms(seconds):
    """The same as the API has it."""
    return at(seconds) / 1_000_000


class Rows:
    """A database with the store's schema, and short ways to put rows in; times are seconds into the run."""

    def __init__(self, path=":memory:", **config):
        self.connection = duckdb.connect(str(path), config=config)
        self.connection.execute(SCHEMA.read_text())
        self._series = {}
        self._spans = 0

    def cursor(self):
        return self.connection.cursor()

    def process(self, process=1, host="node-1", role=None, rank=None, last=0.0, attempt=1):
        self._insert(
            "processes", process, f"i{process}", host, 100 + process, attempt, role, rank, None, "{}", ZERO, at(last)
        )

    def _insert(self, table, *values):
        places = ", ".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table} VALUES ({places})", values)

    def series(self, metric, attributes=None, *, kind="gauge", delta=False, process=1, key=None, unit=""):
        text = json.dumps(attributes or {})
        name = metric, text, process, key
        if name not in self._series:
            self._series[name] = number = len(self._series) + 1
            monotonic = kind == "sum"
            self._insert("series", number, metric, unit, kind, monotonic, delta, "test", process, key, text)
        return self._series[name]

    def points(self, metric, values, attributes=None, **more):
        """`values`: (second, value)."""
        number = self.series(metric, attributes, **more)
        for second, value in values:
            self._insert("points", number, at(second), float(value))

    def counter(self, metric, values, attributes=None, **more):
        self.points(metric, values, attributes, kind="sum", **more)

    def histogram(self, metric, bounds, told, attributes=None, *, delta=False, process=1):
        """`told`: (second, counts)."""
        number = self.series(metric, attributes, kind="histogram", delta=delta, process=process)
        for second, counts in told:
            self._insert("histograms", number, at(second), ZERO, sum(counts), None, None, None, bounds, counts)

    def scalars(self, key, values, *, unit="", statistic=None, attempt=1):
        """`values`: (step, second, value)."""
        attributes = {semconv.METRIC_KEY: key} | ({} if statistic is None else {semconv.STATISTIC: statistic})
        self.series("verl." + key.replace("/", "."), attributes, key=key, unit=unit)
        for step, second, value in values:
            self._insert("scalars", step, key, float(value), at(second), attempt, 1)

    def span(
        self, name, start, end, *, trace="t", span=None, parent=None, error=False, message=None, process=1, step=None,
        phase=None, role=None, rank=None, replica=None, lane=None, validation=None, kind=1, links=None, **attributes,
    ):  # fmt: skip
        """Returns its id. `attributes`: by names with `__` for dots."""
        self._spans += 1
        span = span or f"{self._spans:016x}"
        named = json.dumps({key.replace("__", "."): value for key, value in attributes.items()})
        linked = None if links is None else json.dumps([{"trace": t, "span": s, "attributes": {}} for t, s in links])
        self._insert(
            "spans", trace, span, parent, name, kind, at(start), at(end), error, message, "verl_otel", process, step,
            phase, role, rank, replica, lane, validation, named, linked, None,
        )  # fmt: skip
        return span

    def trajectory(
        self, uid, session, start, end, reward=None, *, step=1, validation=False, trace=None, tokens=None, turns=None,
        outcome="finished", oldest=None, stop="completed",
    ):  # fmt: skip
        trace = trace or f"{uid}-{session}"
        span = self.span("invoke_agent loop", start, end, trace=trace, step=step, validation=validation)
        self._insert(
            "trajectories", trace, span, "invoke_agent loop", at(start), at(end), 1, step, validation, uid, session,
            outcome, reward, 10, tokens, tokens, turns, 1, 0, stop, oldest, oldest, "{}",
        )  # fmt: skip
        return span

    def event(self, name, second, attributes=None, *, trace=None, span=None, severity=9):
        self._insert("events", at(second), name, severity, None, trace, span, 1, json.dumps(attributes or {}))


def many_steps(rows, steps, keys=20):
    """Steps of 10 s with four phases each, and so many keys, by SQL."""
    sql = rows.connection.execute
    rows.process(last=steps * 10)
    for number in range(keys):
        rows.series(f"verl.k{number}", {}, key=f"k{number}/mean")
    sql(
        f"""INSERT INTO scalars SELECT step, 'k' || key || '/mean',
            sin(step / 100.0) + key + (hash(step) % 100) / 500.0, {ZERO} + step * 10 * {SECOND}, 1, 1
            FROM range(1, {steps} + 1) s(step), range({keys}) k(key)"""
    )
    span = f"""SELECT trace, span, parent, name, 1, {ZERO} + start, {ZERO} + start + length, false, NULL, 'verl_otel',
        1, step, phase, NULL, NULL, NULL, 'trainer', NULL, '{{}}', NULL, NULL FROM"""
    begin = f"step * 10 * {SECOND}"
    sql(
        f"""INSERT INTO spans {span} (SELECT 't' || step AS trace, 'r' || step AS span, NULL AS parent,
            'verl.step' AS name, {begin} AS start, 9_900_000_000 AS length, step, NULL AS phase
            FROM range(1, {steps} + 1) s(step))"""
    )
    sql(
        f"""INSERT INTO spans {span} (SELECT 't' || step AS trace, 'p' || step || '-' || number AS span,
            'r' || step AS parent, 'verl.phase.' || phase AS name, {begin} + number::BIGINT * 2_000_000_000 AS start,
            1_900_000_000 AS length, step, phase
            FROM range(1, {steps} + 1) s(step), (VALUES (0, 'gen'), (1, 'old_log_prob'), (2, 'adv'),
                (3, 'update_actor')) p(number, phase))"""
    )


def many_lanes(rows, spans, lanes, seconds=10_000):
    """So many worker spans over so many ranks, all at once, by SQL; some failed."""
    each = spans // lanes
    pause = seconds * SECOND // each
    rows.connection.execute(
        f"""INSERT INTO processes SELECT rank + 10, 'w' || rank, 'node-' || (rank // 8), rank, 1, 'actor', rank,
            NULL, '{{}}', {ZERO}, {ZERO} FROM range({lanes}) r(rank)"""
    )
    rows.connection.execute(
        f"""INSERT INTO spans SELECT 't' || (place // 6), 'w' || place || '-' || rank, NULL,
            'verl.worker.' || phase, 1, {ZERO} + place * {pause}, {ZERO} + place * {pause} + {pause} * 8 // 10
            + (hash(rank, place) % 100) * {pause} // 1000, hash(rank, place) % 100_000 = 0, NULL,
            'verl_otel', rank + 10, (place // 6)::INTEGER, phase, 'actor', rank::INTEGER, NULL, 'actor/' || rank, NULL,
            '{{}}', NULL, NULL
            FROM (SELECT place, ['gen', 'old_log_prob', 'ref', 'values', 'adv', 'update_actor'][place % 6 + 1] AS phase
                FROM range({each}) p(place)), range({lanes}) r(rank)"""
    )


def many_trajectories(rows, steps, groups=64, of=8):
    """Trajectories with a `chat`, by SQL."""
    rows.connection.execute(
        f"""INSERT INTO trajectories SELECT 'x' || step || '-' || uid || '-' || session, 'x', 'invoke_agent loop',
            {ZERO} + step * 10 * {SECOND}, {ZERO} + step * 10 * {SECOND} + (hash(uid, session) % 8000) * 1_000_000, 1,
            step::INTEGER, false, 'u' || uid, session::INTEGER, 'finished', hash(step, uid, session) % 3 / 2.0, 100,
            (hash(uid, session) % 4000)::INTEGER, 100, 2, 1, 0, 'completed', step::INTEGER - 1,
            step::INTEGER - 1, '{{}}'
            FROM range(1, {steps} + 1) s(step), range({groups}) u(uid), range({of}) n(session)"""
    )
    rows.connection.execute(
        f"""INSERT INTO spans SELECT trace, 'c' || trace, 'x', 'chat', 3, start, "end", false, NULL, 'verl_otel', 1,
            step, NULL, 'rollout', NULL, NULL, NULL, NULL, '{{"{semconv.BALANCER_WAIT}": 0.1}}', NULL, NULL
            FROM trajectories"""
    )


def many_points(rows, replicas, points):
    """Gauges, counters and histograms of replicas, every 15 s, by SQL."""
    gauges = (semconv.REPLICA_IDLE, semconv.ENGINE_RUNNING_PEAK, semconv.ENGINE_KV_PEAK, semconv.TELEMETRY_QUEUE)
    names = [one.name for one in gauges]
    names += ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"]
    counters = ["vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:num_preemptions_total"]
    histograms = [semconv.SERVER_DURATION.name, semconv.SERVER_FIRST_TOKEN.name, "vllm:inter_token_latency_seconds"]
    for replica in range(replicas):
        who = {semconv.ROLE: "rollout", semconv.REPLICA: replica}
        rows.process(2 + replica, host=f"node-{replica // 8}", last=points * 15)
        for name in names:
            rows.series(name, who, process=2 + replica)
        for name in counters:
            rows.series(name, who, kind="sum", process=2 + replica)
        for name in histograms:
            rows.series(name, who, kind="histogram", process=2 + replica)
    rows.connection.execute(
        f"""INSERT INTO points SELECT series, {ZERO} + place * 15 * {SECOND}, CASE kind WHEN 'sum' THEN place * 100.0
            ELSE hash(place, series) % 100 / 100.0 END FROM range({points}) p(place), series
            WHERE kind IN ('gauge', 'sum') AND key IS NULL ORDER BY place"""
    )
    rows.connection.execute(
        f"""INSERT INTO histograms SELECT series, {ZERO} + place * 15 * {SECOND}, {ZERO}, place * 10, NULL, NULL, NULL,
            [0.1, 0.5, 1.0, 5.0, 10.0, 50.0], [place, place, place, place * 4, place * 2, place, 0]
            FROM range({points}) p(place), series WHERE kind = 'histogram' ORDER BY place"""
    )
