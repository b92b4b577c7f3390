"""The timeline: which state a cell has, what is idle and what unknown, who is shown; and who straggles."""

import base64

import pytest

from local_rows import Rows, many_lanes, ms
from verl_otel import semconv
from verl_otel.local.queries.reading import NotThereError, ParameterError
from verl_otel.local.queries.stragglers import stragglers
from verl_otel.local.queries.timeline import timeline


@pytest.fixture
def rows():
    made = Rows()
    made.process()
    return made


def painted(found):
    """The states of each lane's columns, as text."""
    cells, width = base64.b64decode(found["cells"]), found["width"]
    lines = [cells[row * width : (row + 1) * width] for row in range(len(found["lanes"]))]
    return {
        lane["lane"]: [found["states"][one] for one in line] for lane, line in zip(found["lanes"], lines, strict=True)
    }


def crowd(rows, lane="actor/0", begin=100, spans=100, **more):
    """So many short ones that cells are answered."""
    for place in range(spans):
        rows.span("verl.worker.update_actor", begin + place * 0.01, begin + place * 0.01 + 0.005, lane=lane, **more)


def test_a_cell_has_the_state_that_covers_most_of_it(rows):
    rows.span("verl.worker.gen", 0, 1.7, lane="actor/0", phase="gen")
    rows.span("verl.worker.adv", 1.7, 4, lane="actor/0", phase="adv")
    crowd(rows, begin=3.0, phase="adv")
    assert painted(timeline(rows.cursor(), ms(0), ms(4), width=4))["actor/0"] == ["gen", "gen", "adv", "adv"]


def test_between_spans_a_lane_idles_and_outside_them_nothing_is_known(rows):
    crowd(rows, begin=2, phase="gen")
    crowd(rows, begin=5, phase="gen")
    found = timeline(rows.cursor(), ms(0), ms(8), width=8)
    assert painted(found)["actor/0"] == ["", "", "gen", "idle", "idle", "gen", "", ""]
    assert found["lanes"][0]["idle"] == pytest.approx(0.5)


def test_an_error_wins_its_cell(rows):
    crowd(rows, begin=0, phase="gen")
    rows.span("verl.worker.gen", 0.5, 0.501, lane="actor/0", phase="gen", error=True)
    crowd(rows, begin=1, phase="gen")
    found = timeline(rows.cursor(), ms(0), ms(2), width=2)
    assert painted(found)["actor/0"] == ["error", "gen"]
    assert found["lanes"][0]["errors"] == 1
    assert found["counts_max"] == 101


def test_of_spans_within_each_other_the_inner_one_is_shown_and_roots_only_in_gaps(rows):
    rows.span("verl.step", 0, 10, lane="trainer", step=1)
    rows.span("verl.phase.gen", 1, 6, lane="trainer", phase="gen")
    rows.span("verl.phase.reward", 2, 3, lane="trainer", phase="reward")
    states = painted(timeline(rows.cursor(), ms(0), ms(10), width=10))["trainer"]
    assert states == ["step", "gen", "reward", "gen", "gen", "gen", "step", "step", "step", "step"]


def test_a_replica_generates_while_it_is_busy_and_says_what_was_done_to_it(rows):
    rows.span("verl.replica.busy", 0, 1, lane="replica/0", replica=0, role="rollout")
    rows.span("verl.replica.sleep", 2, 3, lane="replica/0", replica=0, role="rollout")
    crowd(rows, "replica/0", 3, replica=0, role="rollout")
    found = timeline(rows.cursor(), ms(0), ms(3), width=3)
    assert painted(found)["replica/0"] == ["gen", "idle", "sleep"]
    assert found["lanes"][0]["kind"] == "replica"


def generations(rows, versions):
    """A second for each version of the weights, in so many parts that cells are answered."""
    for place, version in enumerate(versions):
        for part in range(100):
            begin = place + part * 0.01
            told = {} if version is None else {"verl__weights__version": version}
            rows.span("verl.replica.busy", begin, begin + 0.01, lane="replica/0", replica=0, role="rollout", **told)


def test_a_replica_is_told_by_its_weights_where_that_is_asked(rows):
    generations(rows, [3, 4, None])
    crowd(rows, begin=0)
    found = timeline(rows.cursor(), ms(0), ms(3), width=3, by_weights=True)
    assert painted(found)["replica/0"] == ["weights 3", "weights 4", "gen"]
    assert painted(found)["actor/0"][0] == "update_actor"
    assert painted(timeline(rows.cursor(), ms(0), ms(3), width=3))["replica/0"] == ["gen", "gen", "gen"]


def test_of_many_versions_some_share_a_state_and_of_none_there_is_none(rows):
    generations(rows, [0, 1, 2, 319])
    found = timeline(rows.cursor(), ms(0), ms(4), width=4, by_weights=True)
    assert painted(found)["replica/0"] == ["weights 0 to 9"] * 3 + ["weights 310 to 319"]
    assert len([one for one in found["states"] if one.startswith("weights")]) == 32
    other = Rows()
    other.process()
    crowd(other)
    assert not [one for one in timeline(other.cursor(), by_weights=True)["states"] if one.startswith("weights")]


def test_few_spans_are_answered_as_they_are(rows):
    span = rows.span(
        "verl.replica.busy", 1, 2, lane="replica/0", replica=0, step=3, trace="x", verl__weights__version=7
    )
    found = timeline(rows.cursor())
    assert found["spans"] == [
        {
            "row": 0,
            "start": ms(1),
            "end": ms(2),
            "state": "gen",
            "name": "verl.replica.busy",
            "step": 3,
            "weights": 7,
            "error": False,
            "trace": "x",
            "span": span,
        }
    ]


def test_lanes_are_filtered_ordered_and_counted(rows):
    many_lanes(rows, 24_000, 100)
    rows.span("verl.worker.gen", 0, 9000, lane="actor/7", role="actor", rank=7, process=17)
    everyone = timeline(rows.cursor(), width=50)
    assert everyone["total_lanes"] == 100
    assert [one["lane"] for one in everyone["lanes"][:3]] == ["actor/0", "actor/1", "actor/2"]
    assert len(everyone["composition"]["states"]) == 50
    assert all(sum(column) == pytest.approx(1) for column in everyone["composition"]["states"])
    worst = timeline(rows.cursor(), width=50, most=2, order="gap")
    assert worst["lanes"][0]["lane"] == "actor/7"
    assert worst["lanes"][0]["gap_s"] > 8000
    assert (len(worst["lanes"]), worst["total_lanes"]) == (2, 100)
    some = timeline(rows.cursor(), text="rank:0-7,12 host:node-1 -rank:8")
    assert [one["lane"] for one in some["lanes"]] == ["actor/12"], "of node-1, which has ranks 8 to 15"


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("kind:rank rank:3", [3]),
        ("rank:0-9 every:4", [0, 4, 8]),
        ("role:ACT rank:1,2", [1, 2]),
        ("actor/1 -kind:replica rank:10-11", [10, 11]),
        ("replica:1", []),
        ("errors:>100", []),
        ("idle:<=100% rank:5", [5]),
    ],
)
def test_the_filter_s_terms(rows, text, ranks):
    many_lanes(rows, 1200, 20)
    assert [one["rank"] for one in timeline(rows.cursor(), text=text)["lanes"]] == ranks


@pytest.mark.parametrize("text", ["speed:3", "rank:x", "every:0", "idle:much"])
def test_a_filter_that_makes_no_sense_is_refused_in_words(rows, text):
    with pytest.raises(ParameterError, match=text.partition(":")[0]):
        timeline(rows.cursor(), text=text)


@pytest.mark.parametrize("more", [{"width": 0}, {"most": -1}, {"order": "luck"}, {"begin": 5, "end": 1}])
def test_what_makes_no_sense_is_refused(rows, more):
    with pytest.raises(ParameterError):
        timeline(rows.cursor(), **more)


def test_ranks_over_the_median_and_always_the_same_one(rows):
    rows.process(9, host="node-9")
    for step in range(1, 5):
        for rank in range(4):
            late = 2.0 if rank == 3 else 0.0
            rows.span(
                "verl.worker.update", step * 10, step * 10 + 1 + late, step=step, phase="update", role="actor",
                rank=rank, process=9 if rank == 3 else 1,
            )  # fmt: skip
    found = stragglers(rows.cursor())
    (phase,) = found["phases"]
    assert (phase["phase"], phase["ranks"], phase["median_s"]) == ("update", [0, 1, 2, 3], 1.0)
    assert phase["over_s"] == [0, 0, 0, 2.0]
    assert phase["worst"][0] == {"rank": 3, "host": "node-9", "over_s": 2.0, "steps": 4}
    assert found["heat"]["steps"] == [1, 2, 3, 4]
    assert found["heat"]["values"][3] == [2.0] * 4


def test_a_rank_that_said_nothing_of_a_step_is_absent_there(rows):
    for step, ranks in ((1, (0, 1)), (2, (0, 1, 2))):
        for rank in ranks:
            rows.span("verl.worker.gen", step, step + 1, step=step, phase="gen", role="actor", rank=rank)
    assert stragglers(rows.cursor())["heat"]["values"][2] == [None, 0.0]


def test_one_rank_straggles_behind_nobody_and_an_unknown_phase_is_said(rows):
    rows.span("verl.worker.gen", 0, 1, step=1, phase="gen", role="actor", rank=0)
    assert stragglers(rows.cursor()) == {"phases": [], "heat": None}
    rows.span("verl.worker.gen", 0, 1, step=1, phase="gen", role="actor", rank=1)
    with pytest.raises(NotThereError, match="ref"):
        stragglers(rows.cursor(), phase="ref")


def test_names_of_states_come_from_the_spans_own(rows):
    assert semconv.SPAN_REPLICA_BUSY == "verl.replica.busy"
    rows.span("verl.worker.init_model", 0, 1, lane="actor/0", rank=0, role="actor")
    assert "init_model" in timeline(rows.cursor())["states"]
