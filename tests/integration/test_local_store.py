"""The store of the embedded backend holds the numbers that were sent, run by run."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

import otlp_made as made
from local_backend import RUN, ask, names
from otlp_made import BEGIN, SECOND, send
from verl_otel import local, semconv
from verl_otel.local.journal import Journal
from verl_otel.local.store.folder import OTHER
from verl_otel.local.store.store import Store

pytestmark = pytest.mark.usefixtures("quick")


def test_scalars_are_the_points_at_a_snapshots_mark_and_nothing_else(folder):
    values = {"actor/grad_norm": 0.1 + 0.2, "critic/score/mean": 1e-300, "nan": math.nan, "inf": -math.inf}
    repeated = [(f"verl.{key}", {semconv.METRIC_KEY: key}, number) for key, number in values.items()]
    with Store(folder) as store:
        send(store, made.snapshot(RUN, 3, values), made.metrics(RUN, repeated, BEGIN + SECOND))
        send(store, made.snapshot(RUN, 4, {"actor/grad_norm": 7}, BEGIN + 2 * SECOND))
        found = ask(store, "SELECT step, key, value, time, attempt FROM scalars ORDER BY step, key")
        assert repr(found) == repr(
            [(3, key, number, BEGIN, 1) for key, number in sorted(values.items())]
            + [(4, "actor/grad_norm", 7.0, BEGIN + 2 * SECOND, 1)]
        )
        assert ask(store, "SELECT count(*) FROM points") == [(11,)]
        assert store.runs.get(RUN)["step"] == 4


def test_a_batch_of_a_thousand_steps_loses_none(folder):
    folder.make()
    steps = range(1, 1001)
    with Journal(folder.journal) as journal:  # as after a crash: all of it is taken at once
        for step in steps:
            request = made.snapshot(RUN, step, {"loss": step}, BEGIN + step * SECOND)
            journal.append("metrics", request.SerializeToString())
    with Store(folder) as store:
        assert ask(store, "SELECT step, value FROM scalars ORDER BY step") == [(step, float(step)) for step in steps]
    with local.open(RUN, folder.path) as database:  # by DuckDB's relations, too
        assert database.sql("SELECT max(step) FROM scalars").fetchall() == [(1000,)]


def test_a_run_is_copied_while_it_is_written_and_when_nobody_writes_it_twice_at_once(folder, tmp_path):
    with Store(folder) as store:
        send(store, made.snapshot(RUN, 1, {"loss": 1.0}))
        assert store.settle(20)
        store.copy(RUN, tmp_path / "live.duckdb")
    with Store(folder) as store, ThreadPoolExecutor(2) as both:
        files = [tmp_path / "one.duckdb", tmp_path / "two.duckdb"]
        list(both.map(lambda file: store.copy(RUN, file), files))
    for file in (tmp_path / "live.duckdb", *files):
        with local.open(file) as database:
            assert database.execute("SELECT step, key, value FROM scalars").fetchall() == [(1, "loss", 1.0)]


@pytest.mark.parametrize("mark_first", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_snapshot_in_two_requests_is_one(folder, mark_first, restarted):
    mark, scalar = made.snapshot(RUN, 1, {}), made.metrics(RUN, [("verl.loss", {semconv.METRIC_KEY: "loss"}, 0.5)])
    first, second = (mark, scalar) if mark_first else (scalar, mark)
    with Store(folder) as store:
        send(store, first)
        assert store.settle(20)
        if not restarted:
            send(store, second)
            assert store.settle(20)
    with Store(folder) as store:
        if restarted:
            send(store, second)
        assert ask(store, "SELECT step, key, value FROM scalars") == [(1, "loss", 0.5)]


def test_each_attempt_of_a_run_has_its_own_scalars_and_the_last_says_how_the_run_is(folder):
    with Store(folder) as store:
        send(store, made.event(RUN, semconv.EVENT_RUN_START), made.snapshot(RUN, 5, {"loss": 1.0}, process="a"))
        send(store, made.event(RUN, semconv.EVENT_RUN_END, {semconv.RUN_OUTCOME: "failed"}, BEGIN + SECOND))
        assert store.settle(20)
        assert store.runs.get(RUN)["status"] == "failed"
    with Store(folder) as store:
        send(store, made.snapshot(RUN, 5, {"loss": 2.0}, BEGIN + 9 * SECOND, process="b", attempt=2))
        found = ask(store, "SELECT attempt, process, value FROM scalars WHERE step = 5 ORDER BY attempt")
        assert [(attempt, value) for attempt, _, value in found] == [(1, 1.0), (2, 2.0)]
        assert found[0][1] != found[1][1]
        run = store.runs.get(RUN)
        assert (run["status"], run["attempts"], run["ended"], run["step"]) == ("running", 2, None, 5)


def test_runs_have_files_of_their_own_and_what_names_none_is_apart(folder):
    both = made.traces("one", 2)
    both.MergeFrom(made.traces("two", 3))
    both.MergeFrom(made.traces(None, 1))
    with Store(folder) as store:
        send(store, both)
        assert store.settle(20)
        assert [len(names(store, run)) for run in ("one", "two", OTHER)] == [2, 3, 1]
        assert {one["id"] for one in store.runs.list()} == {"one", "two"}
    assert sorted(one.name for one in folder.runs.glob("*.duckdb")) == ["one.duckdb", "two.duckdb"]
    assert (folder.path / "other.duckdb").exists()


def test_histograms_of_every_kind(folder):
    request = made.metrics(RUN, [])
    scope = request.resource_metrics[0].scope_metrics[0]
    explicit = scope.metrics.add(name="explicit").histogram.data_points.add(
        time_unix_nano=BEGIN, count=6, sum=math.nan, bucket_counts=[1, 2, 3], explicit_bounds=[0.1, math.inf]
    )
    explicit.attributes.extend(made.pairs({"a": 1}))
    scope.metrics.add(name="bare").histogram.data_points.add(time_unix_nano=BEGIN, count=2, sum=3.0)
    power = scope.metrics.add(name="power").exponential_histogram.data_points.add(
        time_unix_nano=BEGIN, count=7, sum=1.0, scale=0, zero_count=1
    )
    power.positive.offset, power.negative.offset = 1, 0
    power.positive.bucket_counts.extend([2, 3])
    power.negative.bucket_counts.extend([1])
    summary = scope.metrics.add(name="summary").summary.data_points.add(time_unix_nano=BEGIN, count=5, sum=2.5)
    summary.quantile_values.add(quantile=1.0, value=9.0)
    with Store(folder) as store:
        send(store, request)
        query = (
            "SELECT metric, kind, count, sum, max, bounds, counts FROM histograms JOIN series USING (series) ORDER BY 1"
        )
        found = ask(store, query)
    assert repr(found) == repr(
        [
            ("bare", "histogram", 2, 3.0, None, [], [2]),
            ("explicit", "histogram", 6, math.nan, None, [0.1, math.inf], [1, 2, 3]),
            ("power", "histogram", 7, 1.0, None, [-1.0, 0.0, 2.0, 4.0, 8.0], [1, 1, 0, 2, 3, 0]),
            ("summary", "summary", 5, 2.5, 9.0, [], [5]),
        ]
    )


def test_a_trajectory_has_a_row_of_its_own(folder):
    told = {
        semconv.STEP: 2,
        semconv.VALIDATION: False,
        semconv.SAMPLE_UID: "u",
        semconv.ROLLOUT_SESSION: 3,
        semconv.REWARD: 1,
        semconv.REWARD_PART + "acc": 0.5,
        semconv.REWARD_PART + "note": "text",
        semconv.WEIGHTS_OLDEST: 1,
    }
    with Store(folder) as store:
        send(store, made.traces(RUN, name="invoke_agent tool_agent", attributes=told), made.traces(RUN))
        query = """SELECT step, validation, uid, session, reward, parts, weights_oldest, weights_newest, span
            FROM trajectories"""
        [(*found, span)] = ask(store, query)
        assert found == [2, False, "u", 3, 1.0, '{"acc":0.5,"note":null}', 1, None]
        assert ask(store, f"SELECT name FROM spans WHERE span = '{span}'") == [("invoke_agent tool_agent",)]


def test_a_process_is_known_by_its_instance_and_says_what_it_is(folder):
    own = [("process.memory.usage", {semconv.ROLE: "actor", semconv.RANK: 3}, 5)]
    with Store(folder) as store:
        send(store, made.traces(RUN, process="a"), made.metrics(RUN, own, BEGIN + SECOND, process="a"))
        send(store, made.traces(RUN, process="b"))
        query = "SELECT instance, host, pid, attempt, role, rank, last_seen FROM processes ORDER BY process"
        assert ask(store, query) == [
            ("a", "node-0", 7, 1, "actor", 3, BEGIN + SECOND),
            ("b", "node-0", 7, 1, None, None, BEGIN + SECOND),
        ]
    with Store(folder) as store:  # the numbers are those of before
        send(store, made.traces(RUN, process="b", start=BEGIN + 5 * SECOND), made.metrics(RUN, own, process="a"))
        assert ask(store, "SELECT instance, last_seen FROM processes WHERE process = 2") == [("b", BEGIN + 6 * SECOND)]
        assert ask(store, "SELECT count(*), count(DISTINCT series) FROM series") == [(1, 1)]
