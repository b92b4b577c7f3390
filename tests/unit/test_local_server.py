"""The API over HTTP: every path, and what is said when something is wrong."""

import asyncio
import contextlib
import gzip
import json
import math
import threading
import time

import duckdb
import pytest
from starlette.testclient import TestClient

from local_rows import ms
from local_served import URL, Store, served
from verl_otel.local import asking, live
from verl_otel.local.answers import encoded
from verl_otel.local.errors import LocalError
from verl_otel.local.server import create_app


@pytest.fixture
def store():
    return served()


@pytest.fixture
def client(store, tmp_path):
    with TestClient(create_app(store, page=tmp_path / "page"), base_url=URL) as found:
        yield found


OF_A_RUN = {
    "": {"run", "phases_open", "progress", "failure", "alerts", "advice", "health", "last_good_step"},
    "/config": {"config", "versions", "info"},
    "/keys": {"keys"},
    "/curves?key=critic/score/mean&key=critic/score/mean&width=100": {"x", "curves"},
    "/marks": {"marks"},
    "/steps?from=1&to=2&bins=10": {"steps", "width", "phases", "total", "rest", "start", "end", "trace"},
    "/timeline?width=100&rows=10&filter=kind:trainer&order=idle": {
        "from", "to", "width", "lanes", "total_lanes", "states", "cells", "counts_max", "spans", "composition",
    },
    "/stragglers": {"phases", "heat"},
    "/batch?step=1&sort=reward&limit=5": {"step", "total", "consumed", "rows"},
    "/trajectories?step=1&validation=false&sort=reward&desc=true": {"total", "rows", "distributions"},
    "/groups?step=1": {"groups"},
    "/signal": {"steps", "all_wrong", "mixed", "all_right", "filtered"},
    "/messages/u-0/0000000000000003": {"messages", "tokens"},
    "/tools": {"rows"},
    "/trace/t1?skew=off": {
        "trace", "name", "start", "end", "total", "spans", "critical", "skewed", "truncated", "linked",
    },
    "/engine?width=10": {"panels", "rows"},
    "/hardware": {"panels", "rows"},
    "/pipeline": {"panels", "rows"},
    "/profiles": {"files"},
}  # fmt: skip


@pytest.mark.parametrize("path", OF_A_RUN)
def test_every_question_is_answered_in_its_shape_with_the_run_s_rev(client, path):
    answer = client.get(f"/api/runs/a%2Frun{path}")
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == OF_A_RUN[path] | {"rev"}
    assert answer.json()["rev"] == 7
    assert answer.headers["cache-control"] == "no-store"


def test_the_list_of_runs(client):
    assert [one["id"] for one in client.get("/api/runs").json()["runs"]] == ["a/run"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/runs/nobody", 404, "no run 'nobody'"),
        ("/api/runs/nobody/keys", 404, "no run 'nobody'"),
        ("/api/runs/nobody/curves.csv?key=a", 404, "no run"),
        ("/api/runs/nobody/database", 404, "no run"),
        ("/api/runs/a%2Frun/trace/gone", 404, "no trace 'gone'"),
        ("/api/nothing", 404, "/api/nothing"),
        ("/elsewhere", 404, "nothing"),
        ("/api/runs/a%2Frun/curves", 400, "key is missing"),
        ("/api/runs/a%2Frun/curves.csv", 400, "key is missing"),
        ("/api/runs/a%2Frun/curves?key=a&x=tokens", 400, "'tokens'"),
        ("/api/runs/a%2Frun/curves?key=a&width=many", 400, "width is 'many'"),
        ("/api/runs/a%2Frun/curves?key=a&from=nan", 400, "from is 'nan'"),
        ("/api/runs/a%2Frun/steps?from=1.5", 400, "whole number"),
        ("/api/runs/a%2Frun/steps?from=99999999999999999999", 400, "whole number"),
        ("/api/runs/a%2Frun/timeline?from=1e300", 400, "from is"),
        ("/api/runs/a%2Frun/timeline?filter=speed:3", 400, "speed"),
        ("/api/runs/a%2Frun/batch", 400, "step is missing"),
        ("/api/runs/a%2Frun/trajectories?desc=perhaps", 400, "true or false"),
        ("/api/runs/a%2Frun/trajectories?search=" + "x" * 2000, 400, "1000 characters"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(client, path, status, said):
    answer = client.get(path)
    assert answer.status_code == status
    text = answer.json()["error"]
    assert said in text
    assert "\n" not in text


def test_curves_as_csv_as_they_were_logged(client):
    answer = client.get("/api/runs/a%2Frun/curves.csv?key=critic/score/mean")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines() == ["step,time,critic/score/mean", f"1,{ms(1)},0.5", f"2,{ms(2)},NaN"]


def test_a_copy_of_the_database_is_sent_under_the_run_s_name(client):
    answer = client.get("/api/runs/a%2Frun/database")
    assert answer.content == b"a database"
    assert 'filename="a_run.duckdb"' in answer.headers["content-disposition"]


def test_a_run_is_removed_once_and_only_if_it_may_be(client, store):
    assert client.delete("/api/runs/nobody").status_code == 404
    assert client.delete("/api/runs/a%2Frun").json() == {"removed": "a/run"}
    again = client.delete("/api/runs/a%2Frun")
    assert (again.status_code, "is running" in again.json()["error"]) == (409, True)
    assert store.removed == ["a/run"]
    assert client.put("/api/runs/a%2Frun").status_code == 405


def test_html_in_what_a_run_told_stays_data(client):
    answer = client.get("/api/runs/a%2Frun/config")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["info"]["algorithm"] == "<script>alert(1)</script>"


def test_answers_say_what_a_browser_may_do_with_them(client):
    for path in ("/", "/api/runs", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"


def test_numbers_that_json_has_no_word_for_are_null():
    assert (
        encoded({"a": [1.5, math.nan, (math.inf,)], "b": {"c": -math.inf}}) == b'{"a":[1.5,null,[null]],"b":{"c":null}}'
    )


def test_large_answers_are_packed_for_who_can_unpack_them(client):
    path = "/api/runs/a%2Frun/engine"
    packed = client.get(path, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    plain = client.get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == packed.json()
    assert gzip.compress(plain.content, 3, mtime=0)[:2] == b"\x1f\x8b"


def test_without_a_built_page_it_says_what_to_do(client):
    answer = client.get("/")
    assert answer.status_code == 503
    assert "page/build.py" in answer.text


def test_the_page_and_its_files_are_kept_as_long_as_they_may(store, tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<p>page")
    (tmp_path / "assets" / "page-ABCDEF12.js").write_text("1")
    (tmp_path / "assets" / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret").write_text("no")
    with TestClient(create_app(store, page=tmp_path), base_url=URL) as client:
        assert client.get("/").text == "<p>page"
        assert client.get("/").headers["cache-control"] == "no-cache"
        assert "immutable" in client.get("/assets/page-ABCDEF12.js").headers["cache-control"]
        icon = client.get("/assets/icon.svg")
        assert icon.headers["cache-control"] == "no-cache"
        again = client.get("/assets/icon.svg", headers={"if-none-match": icon.headers["etag"]})
        assert again.status_code == 304
        assert client.get("/assets/..%2Fsecret").status_code == 404


def broken(store, problem):
    @contextlib.contextmanager
    def reading(run):
        raise problem
        yield

    store.reading = reading


def test_a_failure_nobody_foresaw_is_one_line_and_counted_and_logged(client, store, caplog):
    broken(store, duckdb.IOException("secret path /home/me"))
    answer = client.get("/api/runs/a%2Frun/keys")
    assert answer.status_code == 500
    assert "/home/me" not in answer.text
    assert "Traceback" not in answer.text
    assert client.app.state.failures == {"IOException": 1}
    assert "/home/me" in caplog.text


def test_a_database_that_is_open_elsewhere_is_said(client, store):
    broken(store, LocalError("x.duckdb is open in another program"))
    answer = client.get("/api/runs/a%2Frun/keys")
    assert (answer.status_code, answer.json()["error"]) == (409, "x.duckdb is open in another program")


def test_questions_are_put_in_threads_of_their_own(client, store):
    client.get("/api/runs/a%2Frun/keys")
    assert store.reads[-1].startswith("verl-otel-query")


def test_a_question_that_takes_too_long_is_ended(client, store, monkeypatch):
    monkeypatch.setattr(asking.Asking.ask, "__defaults__", (0.2,))
    store.rows.connection.execute("CREATE OR REPLACE TABLE many AS SELECT * FROM range(3000) a(i)")
    store.rows.connection.execute("DROP TABLE events")
    store.rows.connection.execute(
        """CREATE VIEW events AS SELECT (x.i + y.i + z.i)::BIGINT AS time, 'verl.run.start' AS name,
        '{}' AS attributes
        FROM many x, many y, many z WHERE hash(x.i, y.i, z.i) = 1"""
    )
    begin = time.monotonic()
    answer = client.get("/api/runs/a%2Frun/config")
    assert answer.status_code == 504
    assert time.monotonic() - begin < 5
    assert client.app.state.failures == {}


def test_more_questions_than_may_wait_are_refused(store, tmp_path, monkeypatch):
    monkeypatch.setattr(asking.Asking.__init__, "__defaults__", (1, 0))
    with TestClient(create_app(store, page=tmp_path), base_url=URL) as client:
        answer = client.get("/api/runs/a%2Frun/keys")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_news_come_first_as_they_stand_then_as_they_change(monkeypatch):
    monkeypatch.setattr(live, "INTERVAL", 0.0)
    store = Store()

    async def listen():
        stream = live.events(store, lambda: {"a": 1})
        assert await anext(stream) == b'event: runs\ndata: {"a": 1}\n\n'
        threading.Thread(target=lambda: [store.told[0]({"a": 2}), store.told[0]({"b": 5, "a": 3})]).start()
        found = {}
        while found != {"a": 3, "b": 5}:
            found |= json.loads((await anext(stream)).split(b"data: ")[1])
        await stream.aclose()

    asyncio.run(asyncio.wait_for(listen(), 10))
    assert store.told == []


def test_silence_is_broken_so_that_a_dead_connection_is_found(monkeypatch):
    monkeypatch.setattr(live, "SILENCE", 0.01)

    async def listen():
        stream = live.events(Store(), dict)
        await anext(stream)
        assert (await anext(stream)).startswith(b":")
        await stream.aclose()

    asyncio.run(asyncio.wait_for(listen(), 10))
