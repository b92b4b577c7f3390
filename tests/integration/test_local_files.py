"""`verl-otel ls`, `rm`, `tail`, `export` and `report`: what is shown of a run, written out, and removed."""

import json
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

from local_commands import SMALL, VERL_OTEL, Commands, command, send, wait_for
from small_run import file
from unit.test_local_perfetto import check_nested, read
from verl_otel import semconv
from verl_otel.local import backend, fleet
from verl_otel.local.client import Client
from verl_otel.local.fleet.cast import TRAINER
from verl_otel.local.fleet.messages import Batch

PAGE = Path(backend.__file__).parent / "page" / "manifest.json"


@pytest.fixture
def commands(tmp_path):
    made = Commands(tmp_path / "a folder with 100 % blanks")
    yield made
    backend.stop(made.folder)


def test_rm_removes_what_ended_and_refuses_what_runs(commands):
    with commands.up() as told:
        send(told["url"], fleet.requests(time.time_ns(), SMALL))
        with Client(told["url"]) as client:
            client.send(
                *Batch({TRAINER: {semconv.RUN_ID: "going-on"}}).event(TRAINER, "verl.run.start", time.time_ns(), {})
            )
        wait_for(lambda: "going-on" in commands.runs(), "it never came")
        done = commands("rm", "demo", "nothing-like-it")
        assert (done.returncode, done.stdout) == (1, "")
        done = commands("rm", "going")
        assert done.returncode == 1
        assert "going-on is running" in done.stderr
        assert commands("rm", "dem").stdout == "removed demo\n"
        assert set(commands.runs()) == {"going-on"}
        assert not commands.folder.database("demo").exists()
    # Nobody serves it now.
    assert commands("rm", "going-on").returncode == 0
    assert list(commands.folder.runs.iterdir()) == []
    assert commands("ls").stdout == "no runs yet\n"


def test_tail_follows_to_the_end(commands):
    with commands.up() as told:
        assert "no run yet" in commands("tail").stderr
        requests = list(fleet.requests(time.time_ns(), SMALL))
        with Client(told["url"]) as client:
            for name, body in requests[:-2]:
                client.send(name, body)
            wait_for(lambda: client.runs() and client.runs()[0]["step"] == 15, "it never came")
        words = [VERL_OTEL, "tail", "--folder", commands.folder.path]
        with subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, text=True) as process:
            first = process.stdout.readline()
            assert first.startswith("running, step 15 of 15, critic/score/mean ")
            batch = Batch(SMALL.processes)
            failed = {"verl.run.outcome": "failed", "exception.type": "OutOfMemoryError", "exception.message": "CUDA"}
            with Client(told["url"]) as client:
                client.send(*batch.event(TRAINER, "verl.run.end", time.time_ns(), failed, 17))
            rest = process.stdout.read()
            assert process.wait(20) == 3
        assert rest.startswith("failed, step 15 of 15")
        assert "OutOfMemoryError: CUDA" in rest
        done = commands("tail", "--json", "demo")
        assert done.returncode == 3
        (line,) = done.stdout.splitlines()
        assert json.loads(line)["run"]["status"] == "failed"


def test_export_is_read_back(commands, tmp_path):
    with commands.up() as told:
        send(told["url"], fleet.requests(time.time_ns(), SMALL))
        done = commands("export", "demo", "--to", "parquet", "-o", tmp_path / "parquet", "--json")
        assert json.loads(done.stdout) == {"path": str(tmp_path / "parquet"), "run": "demo", "tables": 9}
        steps = duckdb.sql(f"SELECT count(DISTINCT step) FROM '{tmp_path}/parquet/scalars.parquet'").fetchall()
        assert steps == [(15,)]
        done = commands("export", "demo", "--to", "perfetto", "--step", 15, cwd=tmp_path)
        assert done.stdout.startswith("demo.step15.perfetto.json.gz: ")
        found = read(tmp_path / "demo.step15.perfetto.json.gz")["traceEvents"]
        check_nested(found)
        begun = [one["name"] for one in found if one["ph"] in "Bb"]
        assert begun.count("update_actor") == 1 + 16
        assert begun.count("invoke_agent tool_agent") == 12
    # The same of a folder that nobody serves, and of a file alone.
    database = commands.folder.database("demo")
    for run in ("demo", database):
        done = commands("export", run, "--to", "otlp-json", "-o", tmp_path / "run.jsonl")
        assert done.returncode == 0, done.stderr
        kinds = {next(iter(json.loads(line))) for line in (tmp_path / "run.jsonl").read_text().splitlines()}
        assert kinds == {"resourceSpans", "resourceMetrics", "resourceLogs"}
    done = commands("export", "demo", "--to", "perfetto", "--step", 99)
    assert (done.returncode, done.stderr) == (1, "error: there are no spans to show\n")
    done = commands("export", "demo", "--to", "parquet", "-o", "/proc/nowhere")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_a_file_alone_is_enough(tmp_path):
    path = file(tmp_path / "sent by a colleague.duckdb")
    done = command("export", path, "--to", "perfetto", "-o", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    check_nested(read(tmp_path / "out.json")["traceEvents"])


class References(HTMLParser):
    """What a page would fetch, and the text of its scripts."""

    def __init__(self):
        super().__init__()
        self.fetched, self.scripts, self.policy, self._in_script = [], [], "", False

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.fetched += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")
        if tag == "meta" and told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"]

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data


@pytest.mark.skipif(not PAGE.exists(), reason="the page isn't built")
def test_the_report_needs_no_network_and_no_server(commands, tmp_path):
    with commands.up() as told:
        send(told["url"], fleet.requests(time.time_ns(), SMALL))
    # By a backend of its own, which is gone afterwards.
    done = commands("report", "demo", "-o", tmp_path / "report.html", "--json")
    assert done.returncode == 0, done.stderr
    assert backend.serving(commands.folder) is None
    path = tmp_path / "report.html"
    assert json.loads(done.stdout) == {"path": str(path), "run": "demo", "bytes": path.stat().st_size}

    page = References()
    page.feed(path.read_text())
    assert page.fetched == ["data:,"]
    assert page.policy.startswith("default-src 'none'")
    assert len(page.scripts) == 3
    answers = json.loads(page.scripts[1].partition("window.__answers = ")[2].partition(";\nif (!location")[0])
    assert answers["/api/runs"]["runs"][0]["id"] == "demo"
    assert len(answers["/api/runs/demo/curves?x=step"]["curves"][0]["xs"]) == 15
    assert len(answers["/api/runs/demo/batch?step=15"]["rows"]) == 12
    assert len([url for url in answers if "/trace/" in url]) > 4
