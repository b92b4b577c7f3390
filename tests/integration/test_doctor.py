"""`verl-otel doctor` as its users run it: each link, what to do, the exit code, and no secret."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from otlp_server import GrpcSink, HttpSink

pytestmark = pytest.mark.verl

DOCTOR = [sys.executable, "-c", "from verl_otel.cli import main; main()", "doctor"]


def doctor(*arguments, **environment):
    """(exit code, findings by link and name, all that was printed)."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "VERL_OTEL_", "RAY_"))}
    result = subprocess.run(
        [*DOCTOR, *arguments], env={**clean, **environment}, capture_output=True, text=True, timeout=120
    )
    found = {}
    if "--json" in arguments:
        for one in json.loads(result.stdout)["findings"]:
            found.setdefault((one["link"], one["name"]), one)
    return result.returncode, found, result.stdout + result.stderr


def sent_to(sink, **more):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, **more}


def test_with_a_backend_that_answers_nothing_is_broken():
    with HttpSink() as sink:
        code, found, printed = doctor("--json", **sent_to(sink, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"))
    assert code == 0, printed
    assert all("http/protobuf" in found["endpoint", signal]["detail"] for signal in ("traces", "metrics", "logs"))
    assert found["endpoint", "its clock"]["state"] == "ok"
    assert found["hook points", "verl"]["state"] == "ok"
    assert not [one for one in found.values() if one["link"] == "hook points" and one["state"] != "ok"]
    assert found["doors", "verl.plugins"]["state"] == "note"


def test_the_wrong_protocol_is_told_with_the_right_one():
    with GrpcSink() as sink:
        code, found, _ = doctor("--json", **sent_to(sink, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"))
        assert code == 1
        assert found["endpoint", "traces"]["state"] == "failed"
        assert "OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in found["endpoint", "traces"]["remedy"]
        code, found, _ = doctor("--json", **sent_to(sink, OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
        assert (code, found["endpoint", "traces"]["state"]) == (0, "ok")


def test_a_backend_that_is_away_or_refuses_is_broken():
    code, found, _ = doctor("--json", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (code, found["endpoint", "metrics"]["state"]) == (1, "failed")
    with HttpSink(*[(401, {}, b"")] * 12) as sink:
        code, found, _ = doctor("--json", **sent_to(sink, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"))
    assert code == 1
    assert "401" in found["endpoint", "traces"]["detail"]


class Late(BaseHTTPRequestHandler):
    """A backend whose clock stands at 2015."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.end_headers()

    def do_HEAD(self):
        self.do_POST()

    def date_time_string(self, timestamp=None):
        return "Mon, 30 Nov 2015 10:00:00 GMT"

    def log_message(self, *_):
        pass


def test_a_clock_that_is_wrong_is_told():
    with ThreadingHTTPServer(("127.0.0.1", 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        _, found, _ = doctor(
            "--json", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"
        )
        server.shutdown()
    assert found["endpoint", "its clock"]["state"] == "warning"
    assert "behind" in found["endpoint", "its clock"]["detail"]


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"VERL_OTEL_ENABLED": "false"}])
def test_switched_off_all_doors_are_closed_and_it_says_by_what(off):
    code, found, _ = doctor("--json", OTEL_TRACES_EXPORTER="none", **off)
    assert code == 1
    assert next(iter(off)) in found["doors", "all doors"]["detail"]


def test_settings_are_shown_with_their_source_and_secrets_are_not(tmp_path):
    secret = "s3cret-token"
    code, found, printed = doctor(
        "--json",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://user:{secret}@127.0.0.1:9",
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization={secret}",
        VERL_OTEL_QUEUE_MIB="7",
        VERL_OTEL_QUEUE_MB="7",
        VERL_OTEL_HEADERS_FILE=str(tmp_path / "none"),
    )
    assert secret not in printed
    assert found["settings", "VERL_OTEL_QUEUE_MIB"]["detail"] == "7 (environment)"
    assert found["settings", "VERL_OTEL_MAX_KEYS"]["detail"].endswith("(default)")
    assert "did you mean VERL_OTEL_QUEUE_MIB" in found["settings", "complaint"]["detail"]
    assert found["settings", "VERL_OTEL_HEADERS_FILE"]["state"] == "failed"
    assert code == 1


def test_packages_of_several_releases_and_wandb_with_generic_headers(tmp_path):
    for name, version in {"wandb": "0.31.0", "opentelemetry-api": "1.30.0"}.items():
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    _, found, _ = doctor(
        "--json", PYTHONPATH=str(tmp_path), OTEL_EXPORTER_OTLP_HEADERS="a=b", OTEL_TRACES_EXPORTER="none"
    )
    assert "VERL_OTEL_HEADERS_FILE" in found["versions", "wandb"]["remedy"]
    assert found["versions", "OpenTelemetry"]["state"] == "failed"
    assert "opentelemetry-api 1.30.0" in found["versions", "OpenTelemetry"]["detail"]


def test_as_text_each_line_has_its_word_and_what_is_wrong_its_remedy():
    code, _, printed = doctor(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", COLUMNS="200")
    assert code == 1
    assert "failed  traces" in printed
    assert "start a collector there" in printed
    assert "\x1b[" not in printed  # no colours in a pipe


def test_wrong_usage_is_exit_code_2():
    assert doctor("--nonsense")[0] == 2


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    (tmp_path / "click.py").write_text("raise ImportError('none here', name='click')\n")
    code, _, printed = doctor(PYTHONPATH=str(tmp_path))
    assert code == 1
    assert printed.strip() == "verl-otel's command needs click: install the extra `cli` (click and rich)"
