"""Lines by time: counters that begin anew, histograms merged before quantiles, gaps that are no zeros."""

import pytest

from local_rows import Rows, at, ms
from verl_otel import semconv
from verl_otel.local.queries import panels
from verl_otel.local.queries.engine import engine
from verl_otel.local.queries.engine_panels import ANY, SGLANG, VLLM
from verl_otel.local.queries.hardware import PANELS as HARDWARE
from verl_otel.local.queries.hardware import hardware
from verl_otel.local.queries.histograms import merged, quantile
from verl_otel.local.queries.metrics import growth, newest
from verl_otel.local.queries.panels import Counter, Gauge, Panel, Quantiles, Share, drawn
from verl_otel.local.queries.pipeline import PANELS as PIPELINE
from verl_otel.local.queries.pipeline import pipeline
from verl_otel.local.queries.reading import ParameterError
from verl_otel.local.queries.windows import Window
from verl_otel.semconv import hardware as names

TEN = Window(at(0), at(10) - at(0), 5)
"""Five columns of ten seconds."""


@pytest.fixture
def rows():
    return Rows()


def lines(rows, *sources, window=TEN):
    (found,) = drawn(rows.cursor(), [Panel("p", "", "", "", sources, "nothing")], window)
    return {one["name"]: one["ys"] for one in found["lines"]}


def test_a_gauge_is_the_most_of_each_column_and_a_gap_where_nobody_told(rows):
    rows.points("m", [(1, 1.0), (2, 5.0), (3, 2.0), (25, 7.0)])
    assert lines(rows, Gauge("m")) == {"all": [5.0, None, 7.0, None, None]}
    assert lines(rows, Gauge("m", take="avg"))["all"][0] == pytest.approx(8 / 3)
    assert lines(rows, Gauge("m", take="min"))["all"][0] == 1.0


def test_lines_are_by_attributes_and_series_of_one_line_are_joined(rows):
    rows.process(1, host="a")
    rows.process(2, host="b")
    rows.points("m", [(1, 1.0)], {"k": "x"}, process=1)
    rows.points("m", [(1, 2.0)], {"k": "x"}, process=2)
    rows.points("m", [(1, 4.0)], {"k": "y"}, process=2)
    assert {name: ys[0] for name, ys in lines(rows, Gauge("m", ("k",), join="sum")).items()} == {"x": 3.0, "y": 4.0}
    assert {name: ys[0] for name, ys in lines(rows, Gauge("m", ("host.name",), "of")).items()} == {"of a": 1, "of b": 4}
    assert lines(rows, Gauge("m", (), "only", {"k": "y"}))["only"][0] == 4.0


def test_nan_is_no_value_of_a_gauge(rows):
    rows.points("m", [(1, float("nan")), (2, 1.0)])
    assert lines(rows, Gauge("m"))["all"][0] == 1.0


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ([(-5, 100), (5, 110), (15, 130)], [10, 20, None, None, None]),
        ([(5, 100), (15, 130)], [None, 30, None, None, None]),
        ([(5, 100), (15, 30), (25, 50)], [None, 30, 20, None, None]),
        ([(1, 0), (3, 40), (5, 10), (15, 15)], [50, 5, None, None, None]),
        ([(5, 0), (35, 60)], [None, None, None, 60, None]),
    ],
    ids=["grows", "what it began with is not its growth", "reset between", "reset within", "silence is a gap"],
)
def test_a_counter_grows_and_may_begin_anew(rows, told, wanted):
    rows.counter("c", told)
    assert lines(rows, Counter("c", per_second=False)).get("all", [None] * 5) == wanted


def test_rates_are_by_the_second_and_deltas_add(rows):
    rows.counter("c", [(5, 100), (15, 130)])
    assert lines(rows, Counter("c"))["all"][1] == 3.0
    rows.counter("d", [(1, 10), (2, 20), (11, 5)], delta=True)
    assert lines(rows, Counter("d", per_second=False))["all"][:2] == [30, 5]


def test_a_share_of_nothing_is_absent(rows):
    rows.counter("hits", [(5, 0), (15, 30), (25, 30)])
    rows.counter("all", [(5, 0), (15, 40), (25, 40)])
    assert lines(rows, Share(Counter("hits"), Counter("all")))["all"] == [None, 0.75, None, None, None]


def test_histograms_are_merged_over_series_and_only_then_a_quantile_taken(rows):
    rows.histogram("h", [1, 2, 4], [(-5, [5, 5, 5, 5]), (5, [15, 5, 5, 5])])
    rows.histogram("h", [1, 2, 4], [(-5, [0, 0, 0, 0]), (5, [0, 0, 10, 0])], {"replica": 1})
    assert lines(rows, Quantiles("h", (0.5, 0.75)))["50%"][0] == 1.0
    assert lines(rows, Quantiles("h", (0.5, 0.75)))["75%"][0] == 3.0


def test_a_histogram_that_began_anew_has_what_it_has_and_deltas_add(rows):
    rows.histogram("h", [1, 2], [(5, [10, 0, 0]), (15, [0, 2, 0])])
    rows.histogram("d", [1, 2], [(1, [1, 0, 0]), (2, [0, 1, 0]), (11, [0, 0, 1])], delta=True)
    found = merged(rows.cursor(), ["h", "d"], at(0), at(50), TEN.width)
    assert found["h",].counts == {0: [10, 0, 0], 1: [0, 2, 0]}
    assert found["d",].counts == {0: [1, 1, 0], 1: [0, 0, 1]}


def test_histograms_of_different_bounds_are_united(rows):
    rows.histogram("h", [1, 4], [(1, [1, 1, 1])])
    rows.histogram("h", [2, 4], [(1, [10, 10, 10])], {"other": True})
    found = merged(rows.cursor(), ["h"], at(0), at(50), TEN.width)["h",]
    assert (found.bounds, found.counts) == ([1, 2, 4], {0: [1, 10, 11, 11]})


@pytest.mark.parametrize(
    ("counts", "share", "wanted"),
    [
        ([10, 0, 0, 0], 0.5, 0.5),
        ([0, 10, 0, 0], 0.5, 1.5),
        ([5, 5, 0, 0], 0.95, 1.9),
        ([0, 0, 0, 3], 0.5, 4.0),
        ([0, 0, 0, 0], 0.5, None),
    ],
)
def test_quantiles_are_prometheus_own(counts, share, wanted):
    assert quantile([1, 2, 4], counts, share) == wanted


def test_of_many_replicas_the_least_the_median_the_most_and_the_worst_are_drawn(rows):
    for replica in range(64):
        rows.points("m", [(1, replica)], {"replica": replica})
    found = {name: ys[0] for name, ys in lines(rows, Gauge("m", ("replica",))).items()}
    assert found == {"most": 63, "median": 31.5, "least": 0, "63": 63, "62": 62, "61": 61}
    low = {name: ys[0] for name, ys in lines(rows, Gauge("m", ("replica",), low_is_bad=True)).items()}
    assert set(low) == {"most", "median", "least", "0", "1", "2"}


def test_a_panel_without_lines_says_why(rows):
    found = engine(rows.cursor())
    assert all(one["why_empty"] and not one["x"] for one in found["panels"])
    assert {one["id"] for one in found["panels"]} == {one.id for one in (*ANY, *VLLM)}


def test_the_engine_s_own_panels_are_those_of_the_engine_there_is(rows):
    rows.process(1, last=60)
    rows.points("sglang:num_running_reqs", [(1, 3.0), (31, 4.0)], {semconv.ROLE: "rollout", semconv.REPLICA: 0})
    found = {one["id"]: one for one in engine(rows.cursor())["panels"]}
    assert set(found) == {one.id for one in (*ANY, *SGLANG)}
    (line,) = found["sglang_running"]["lines"]
    assert line["name"] == "running rollout 0"
    assert [one for one in line["ys"] if one is not None] == [3.0, 4.0]


def test_the_busiest_replica_is_the_first_row(rows):
    for replica, idle in ((0, 0.9), (1, 0.1)):
        rows.process(replica + 1, host=f"node-{replica}", last=60)
        who = {semconv.ROLE: "rollout", semconv.REPLICA: replica}
        rows.points(semconv.REPLICA_IDLE.name, [(59, idle)], who, process=replica + 1)
        rows.points(semconv.ENGINE_RUNNING_PEAK.name, [(59, 12)], who, process=replica + 1)
    (table,) = engine(rows.cursor())["rows"]
    assert table["rows"][0] == ["rollout 1", "node-1", None, 12.0, None, None, None, 0.1, None]


def test_a_sick_gpu_is_the_first_row_with_the_worst_that_is_known(rows):
    rows.process(1, host="a", last=60)
    for index in range(4):
        gpu = {names.GPU_INDEX: index}
        rows.points(names.GPU_UTILIZATION.name, [(59, 0.5)], gpu)
        rows.points(names.STATUS.name, [(59, 1.0)], gpu | {names.HW_STATE: "failed" if index == 2 else "ok"})
        rows.points(names.STATUS.name, [(59, 0.0)], gpu | {names.HW_STATE: "ok" if index == 2 else "failed"})
    rows.points(names.GPU_THROTTLED.name, [(59, 1.0)], {names.GPU_INDEX: 1, names.GPU_THROTTLE_REASON: "thermal"})
    rows.points(names.GPU_THROTTLED.name, [(59, 1.0)], {names.GPU_INDEX: 0, names.GPU_THROTTLE_REASON: "power_cap"})
    rows.counter(names.ERRORS.name, [(1, 5), (59, 6)], {names.GPU_INDEX: 3, names.ERROR: "xid_79"})
    (table,) = hardware(rows.cursor())["rows"]
    states = {one[1]: one[3] for one in table["rows"]}
    assert states == {"0": "ok", "1": "throttled", "2": "lost", "3": "errors"}
    assert [one[3] for one in table["rows"]][-1] == "ok"


def test_the_pipeline_says_who_waits_what_was_lost_and_how_old_each_host_is(rows):
    rows.process(1, host="a", last=100)
    rows.process(2, host="b", last=40)
    rows.counter(
        semconv.TELEMETRY_DROPPED.name, [(1, 0), (50, 7)], {semconv.SIGNAL: "traces", semconv.DROP_REASON: "queue_full"}
    )
    rows.span("verl.step", 0, 50, span="s")
    rows.span("verl.phase.gen", 0, 25, parent="s")
    found = pipeline(rows.cursor(), ms(0), ms(100), width=2)
    panels_by_id = {one["id"]: one for one in found["panels"]}
    assert panels_by_id["waits"]["lines"][0] == {"name": "trainer waits for rollouts", "ys": [pytest.approx(0.5), None]}
    hosts, lost = found["rows"]
    assert hosts["rows"] == [["b", 1, 60.0, None], ["a", 1, 0.0, None]]
    assert lost["rows"] == [["traces", "queue_full", 7.0]]


@pytest.mark.parametrize("ask", [engine, hardware, pipeline])
def test_a_window_that_makes_no_sense_is_refused(rows, ask):
    with pytest.raises(ParameterError):
        ask(rows.cursor(), 10, 5)
    with pytest.raises(ParameterError):
        ask(rows.cursor(), width=0)


def test_every_panel_asks_says_what_is_good_and_has_an_id_of_its_own():
    every = [*ANY, *VLLM, *SGLANG, *HARDWARE, *PIPELINE]
    assert len({one.id for one in every}) == len(every)
    assert all(one.title.endswith("?") and one.good and one.why_empty for one in every)


def test_growth_counts_from_zero_or_not_and_by_attributes(rows):
    rows.counter("c", [(10, 5), (20, 8)], {"a": "x"})
    rows.counter("c", [(10, 1), (5000, 3), (9000, 1)], {"a": "y"})
    cursor = rows.cursor()
    assert growth(cursor, "c", at(10_000), labels=["a"]) == {("x",): 8, ("y",): 4}
    assert growth(cursor, "c", at(10_000), labels=["a"], from_zero=False) == {("x",): 3, ("y",): 3}
    assert growth(cursor, "c", at(9500), within=at(1000) - at(0), labels=["a"]) == {("y",): 1}


def test_the_newest_of_each_series_is_told_unless_it_is_old(rows):
    rows.process(1, host="a")
    rows.points("m", [(1, 1), (400, 2)], {"a": 1})
    rows.points("m", [(1, 3)], {"a": 2})
    (one,) = newest(rows.cursor(), "m", at(401))
    assert (one["value"], one["attributes"], one["host"]) == (2, {"a": 1}, "a")


def test_no_more_lines_than_can_be_told_apart():
    assert panels.MOST_LINES <= 16
