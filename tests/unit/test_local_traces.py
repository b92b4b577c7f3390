"""A trace: what it waited for, clocks that can't be right, many ranks as few rows, what is linked, what was said."""

import json

import pytest

from local_rows import Rows, ms
from verl_otel import semconv
from verl_otel.local.queries.messages import messages
from verl_otel.local.queries.reading import NotThereError
from verl_otel.local.queries.span_tree import FOLD_ABOVE
from verl_otel.local.queries.traces import trace


@pytest.fixture
def rows():
    made = Rows()
    made.process(1, host="a")
    made.process(2, host="b")
    return made


def spans(found):
    return {one["span"]: one for one in found["spans"]}


def test_the_critical_path_walks_back_along_what_finished_last(rows):
    rows.span("root", 0, 10, span="root")
    rows.span("early", 0, 4, span="early", parent="root")
    rows.span("beside", 1, 3, span="beside", parent="root")
    rows.span("late", 4, 9, span="late", parent="root")
    rows.span("inner", 5, 8, span="inner", parent="late")
    rows.span("short", 5, 6, span="short", parent="late")
    found = trace(rows.cursor(), "t")
    assert set(found["critical"]) == {"root", "late", "inner", "early"}


def test_what_hangs_over_its_parent_is_cut_and_nobody_waits_for_a_consumer(rows):
    rows.span("root", 0, 10, span="root")
    rows.span("over", 8, 20, span="over", parent="root")
    rows.span("consumer", 0, 10, span="consumer", parent="root", kind=5)
    rows.span("before", 0, 7, span="before", parent="root")
    assert set(trace(rows.cursor(), "t")["critical"]) == {"root", "over", "before"}


def test_a_clock_is_corrected_only_where_the_host_differs_and_the_child_does_not_fit(rows):
    rows.span("root", 10, 20, span="root", process=1)
    rows.span("wrong", 5, 9, span="wrong", parent="root", process=2)
    rows.span("below", 6, 7, span="below", parent="wrong", process=2)
    rows.span("fits", 12, 13, span="fits", parent="root", process=2)
    rows.span("own", 5, 9, span="own", parent="root", process=1)
    found = trace(rows.cursor(), "t")
    assert found["skewed"] == [{"span": "wrong", "by_s": 8.0}, {"span": "below", "by_s": 8.0}]
    moved = spans(found)
    assert (moved["wrong"]["start"], moved["wrong"]["end"]) == (ms(13), ms(17)), "in the middle of its parent"
    assert moved["below"]["start"] == ms(14)
    assert (moved["fits"]["start"], moved["own"]["start"]) == (ms(12), ms(5))
    plain = trace(rows.cursor(), "t", skew=False)
    assert plain["skewed"] == []
    assert spans(plain)["wrong"]["start"] == ms(5)


def test_a_child_that_is_longer_than_its_parent_begins_with_it(rows):
    rows.span("root", 10, 20, span="root", process=1)
    rows.span("long", 0, 15, span="long", parent="root", process=2)
    assert spans(trace(rows.cursor(), "t"))["long"]["start"] == ms(10)


def test_depth_and_order_are_a_waterfall_s_even_with_a_parent_that_never_came(rows):
    rows.span("orphan", 3, 4, span="orphan", parent="gone")
    rows.span("child", 1, 2, span="child", parent="root")
    rows.span("root", 0, 10, span="root")
    found = trace(rows.cursor(), "t")
    assert [(one["span"], one["depth"]) for one in found["spans"]] == [("root", 0), ("child", 1), ("orphan", 0)]
    assert found["name"] == "root"


def test_parents_in_a_circle_end(rows):
    rows.span("root", 0, 10, span="root")
    rows.span("one", 1, 2, span="one", parent="two")
    rows.span("two", 1, 2, span="two", parent="one")
    assert [one["span"] for one in trace(rows.cursor(), "t")["spans"]] == ["root"]


def test_many_ranks_are_the_fastest_the_median_and_the_slowest_and_errors(rows):
    rows.span("root", 0, 1000, span="root")
    rows.span("verl.phase.gen", 0, 1000, span="gen", parent="root", phase="gen")
    for rank in range(101):
        rows.span("verl.worker.gen", 0, 100 + rank, span=f"r{rank}", parent="gen", rank=rank, error=rank == 30)
        rows.span("inside", 0, 50, span=f"i{rank}", parent=f"r{rank}")
    found = trace(rows.cursor(), "t")
    ranks = {one["rank"] for one in found["spans"] if one["name"] == "verl.worker.gen"}
    assert ranks == {0, 50, 100, 30}
    assert [one["folded"] for one in found["spans"] if one["folded"]] == [101 - 4]
    assert len([one for one in found["spans"] if one["name"] == "inside"]) == 4, "below what is hidden, all is"
    assert found["total"] == 204
    whole = trace(rows.cursor(), "t", folded=False)
    assert len(whole["spans"]) == 204
    assert FOLD_ABOVE < 101


def test_links_are_found_in_both_directions(rows):
    rows.span("verl.step", 0, 10, trace="step", span="s")
    rows.span("invoke_agent loop", 0, 5, trace="x", span="a", links=[("step", "s"), ("gone", "g")])
    rows.span("verl.phase.gen", 0, 5, trace="step", span="p", parent="s", links=[("x", "a")])
    assert trace(rows.cursor(), "x")["linked"] == [
        {"trace": "step", "span": "s", "name": "verl.step", "direction": "to"},
        {"trace": "gone", "span": "g", "name": "", "direction": "to"},
        {"trace": "step", "span": "p", "name": "verl.phase.gen", "direction": "from"},
    ]


def test_attributes_and_events_are_as_they_were_sent(rows):
    span = rows.span("root", 0, 10, error=True, message="<script>alert(1)</script>", answer="<b>", list=["a", "b"])
    told = json.dumps([{"time": int(ms(3) * 1e6), "name": "exception", "attributes": {"exception.type": "E"}}])
    rows.connection.execute("UPDATE spans SET events = ?", [told])
    (one,) = trace(rows.cursor(), "t")["spans"]
    assert one["attributes"] == {"answer": "<b>", "list": ["a", "b"]}
    assert one["message"] == "<script>alert(1)</script>"
    assert one["events"] == [{"time": ms(3), "name": "exception", "attributes": {"exception.type": "E"}}]
    assert (one["span"], one["process"]) == (span, "a:101")


def test_a_trace_that_is_not_there_is_said(rows):
    with pytest.raises(NotThereError, match="nowhere"):
        trace(rows.cursor(), "nowhere")


def message(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def test_a_conversation_is_in_the_order_it_was_said(rows):
    rows.span("invoke_agent loop", 0, 10, span="a", gen_ai__input__messages=message("user", "2+2?"))
    rows.span("chat", 1, 2, span="c1", parent="a", gen_ai__output__messages=message("assistant", "let me"))
    rows.span(
        "execute_tool add", 3, 4, span="t1", parent="a",
        gen_ai__tool__call__arguments="[2, 2]", gen_ai__tool__call__result="4",
    )  # fmt: skip
    rows.span("chat", 5, 6, span="c2", parent="a")
    rows.event(
        semconv.EVENT_MESSAGES, 6, {semconv.GEN_AI_OUTPUT_MESSAGES: message("assistant", "4")}, trace="t", span="c2"
    )
    assert messages(rows.cursor(), "t", "a") == {
        "messages": [
            {"role": "user", "text": "2+2?"},
            {"role": "assistant", "text": "let me"},
            {"role": "tool call", "text": "add [2, 2]"},
            {"role": "tool", "text": "4"},
            {"role": "assistant", "text": "4"},
        ],
        "tokens": None,
    }
    assert [one["text"] for one in messages(rows.cursor(), "t", "c1")["messages"]] == ["let me"]


def test_tokens_come_from_the_event_and_text_of_another_shape_is_shown_as_it_is(rows):
    rows.span("invoke_agent loop", 0, 10, span="a", gen_ai__input__messages="plain")
    rows.event(semconv.EVENT_MISMATCH, 6, {semconv.MISMATCH_TOKENS: [0.5, -0.25]}, trace="t", span="a")
    found = messages(rows.cursor(), "t", "a")
    assert found["messages"] == [{"role": "", "text": "plain"}]
    assert [one["difference"] for one in found["tokens"]] == [0.5, -0.25]


def test_where_nothing_was_captured_there_are_no_messages(rows):
    rows.span("invoke_agent loop", 0, 10, span="a")
    assert messages(rows.cursor(), "t", "a") == {"messages": [], "tokens": None}
    with pytest.raises(NotThereError):
        messages(rows.cursor(), "t", "b")
