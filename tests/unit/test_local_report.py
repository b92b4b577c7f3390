"""The report: what is asked for it, what is cut, and how it is written into a page."""

import json

import pytest

from verl_otel.local import report

RUN = "a run/1"
CONTENT = {"gen_ai.input.messages": "secret", "verl.step": 4}


class Answering:
    """A backend that answers with as little as it may; `asked` says what it was asked."""

    def __init__(self, keys=3, spans=1):
        self.asked, self._spans = [], spans
        self._keys = [{"key": f"k{number}"} for number in range(keys)]

    def run(self, run, path="", **parameters):
        assert run == RUN
        self.asked.append((path, parameters))
        match path.split("/")[0]:
            case "":
                return {"run": {"id": RUN, "reward": {"key": "k1", "points": []}}, "rev": 1}
            case "keys":
                return {"keys": self._keys}
            case "curves":
                found = [{"key": key, "xs": [3, 4, 5], "ys": [0.5, 0.1, 0.3]} for key in parameters["key"]]
                return {"rev": 1, "curves": found}
            case "signal":
                return {"steps": [3, 4, 5]}
            case "steps":
                return {"trace": [f"root{parameters.get('from')}", None]}
            case "trajectories":
                return {"total": 20, "rows": [trajectory(parameters.get("step"), number) for number in range(20)]}
            case "trace":
                event = {"time": 0, "name": "e", "attributes": CONTENT}
                return {"spans": [{"attributes": CONTENT, "events": [event]}] * self._spans, "truncated": False}
        return {"rows": []}


def trajectory(step, number):
    return {"trace": f"t{step}-{number}", "span": "s", "reward": None if number == 7 else number, "seconds": number}


def test_answers_stand_under_the_urls_that_the_page_asks():
    urls = [url for url, _ in report.gathered(Answering(), RUN)]
    base = "/api/runs/a%20run%2F1"
    assert urls[:4] == ["/api/runs", base, f"{base}/keys", f"{base}/curves?x=step"]
    for one in (
        "config", "steps", "marks", "timeline", "engine", "trajectories", "batch?step=5", "trace/root5", "trace/t5-0",
        "trace/t3-19",
    ):  # fmt: skip
        assert f"{base}/{one}" in urls
    assert len(urls) == len(set(urls))


def test_all_keys_are_in_one_answer_though_asked_for_by_parts():
    client = Answering(keys=120)
    answers = dict(report.gathered(client, RUN))
    assert len(answers["/api/runs/a%20run%2F1/curves?x=step"]["curves"]) == 120
    assert max(len(parameters["key"]) for path, parameters in client.asked if path == "curves") <= 64


def test_last_best_and_worst_step_of_those_with_trajectories():
    reward = {"xs": [1.0, 3.0, 4.0, 5.0, 6.0], "ys": [9.0, 0.5, 0.1, 0.3, None]}
    assert report.chosen_steps([3, 4, 5, 6], reward) == [6, 3, 4]
    assert report.chosen_steps([3, 4, 5], {"xs": [], "ys": []}) == [5]
    assert report.chosen_steps([], reward) == []


@pytest.mark.parametrize("content", [False, True])
def test_what_was_said_is_there_only_if_asked_for(content):
    client = Answering()
    answers = dict(report.gathered(client, RUN, content=content))
    text = json.dumps([answer for url, answer in answers.items() if "/trace/" in url])
    assert ("secret" in text) is content
    assert '"verl.step": 4' in text
    assert any(path.startswith("messages/") for path, _ in client.asked) is content


def test_a_long_trace_is_cut_and_says_so():
    answers = dict(report.gathered(Answering(spans=report._SPANS + 1), RUN))
    trace = answers["/api/runs/a%20run%2F1/trace/t5-0"]
    assert (len(trace["spans"]), trace["truncated"]) == (report._SPANS, True)


def test_no_text_ends_the_script_it_stands_in():
    text = report.embedded({"a": "</script><!-- \u2028 <b>", "n": float("nan"), "f": 1.0, "x": 0.123456789})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"a": "</script><!-- \u2028 <b>", "n": None, "f": 1, "x": 0.123457}


def test_times_keep_their_milliseconds():
    assert report.embedded(1796127240424.9652) == "1796127240425.0"
    assert report.embedded([12345678, 0.0, -2.5e-9]) == "[12345678,0,-2.5e-09]"


def test_what_there_is_no_room_for_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_page", lambda: ("draw('</script>')", "p > a {}", "MIT"))
    said = []
    size = report.write(Answering(), RUN, tmp_path / "all.html", say=said.append)
    assert said == []
    monkeypatch.setattr(report, "BUDGET", size // 2)
    smaller = report.write(Answering(), RUN, tmp_path / "some.html", say=said.append)
    assert smaller < size
    assert "no room for" in said[0]
    text = (tmp_path / "all.html").read_text()
    assert text.count("</script>") == 3
    assert "draw('<\\/script>')" in text
