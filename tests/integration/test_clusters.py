"""Every way to a Ray cluster: workers are reached, spans are joined, and no header value is written anywhere by Ray."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("ray")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402

from integration.clusters import RAY, Head, clean_environment  # noqa: E402
from otlp_server import HttpSink  # noqa: E402

HERE = Path(__file__).parent
PROGRAM = HERE / "cluster_program.py"
TOKEN = "SECRET-TOKEN"
HEADERS = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={TOKEN}"}


def ours(sink, **more):
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "VERL_OTEL_FLUSH_TIMEOUT": "5",
        **more,
    }


def drive(*arguments, environment, command=(sys.executable, str(PROGRAM)), cwd=None):
    """Run the driver; returns what it found, and all it printed."""
    result = subprocess.run(
        [*command, *arguments],
        env=clean_environment(**environment),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
    )
    printed = result.stdout + result.stderr
    lines = [line for line in printed.splitlines() if "FOUND{" in line]
    assert len(lines) == 1, printed[-3000:]
    return json.loads(lines[0][lines[0].index("FOUND") + 5 :]), printed


def assert_reached(found, sink, tasks):
    """All workers are instrumented, of one run, and their spans are below the driver's."""
    assert {one["role"] for one in found["found"]} == {"worker"}
    assert len({one["run"] for one in found["found"]} - {None}) == 1
    requests = [ExportTraceServiceRequest.FromString(body) for path, body in sink.accepted if path == "/v1/traces"]
    spans = [
        span for one in requests for kind in one.resource_spans for scope in kind.scope_spans for span in scope.spans
    ]
    (driver,) = (one for one in spans if one.name == "driver")
    below = [one for one in spans if one.name.startswith("in a")]
    assert len(below) == tasks
    assert {(one.trace_id, one.parent_span_id) for one in below} == {(driver.trace_id, driver.span_id)}


def assert_every_export_carries_the_token(sink):
    assert sink.headers
    assert {one.get("authorization", one.get("Authorization")) for one in sink.headers} == {TOKEN}


def test_a_local_cluster_with_the_token_in_the_drivers_environment():
    with HttpSink() as sink:
        found, printed = drive(environment=ours(sink, LOOK_FOR=TOKEN, **HEADERS))
        assert_reached(found, sink, tasks=2)
        assert_every_export_carries_the_token(sink)
    assert TOKEN not in found["shown"]
    assert not found["written"]
    assert TOKEN not in printed


@pytest.mark.parametrize("where", ["the nodes' environment", "a file"])
def test_a_cluster_of_two_nodes_that_is_already_up(where, tmp_path):
    secret = tmp_path / "headers"
    secret.write_text(f"authorization={TOKEN}\n")
    on_nodes = HEADERS if where == "the nodes' environment" else {}
    in_driver = {"VERL_OTEL_HEADERS_FILE": str(secret)} if where == "a file" else HEADERS
    with HttpSink() as sink, Head(nodes=2, environment=on_nodes) as head:
        found, printed = drive(head.address, "2", environment=ours(sink, **in_driver))
        assert_reached(found, sink, tasks=3)
        assert len({one["node"] for one in found["found"]}) == 2
        assert_every_export_carries_the_token(sink)
        assert TOKEN not in found["shown"] + printed + head.written()


SETUP = "import os\n\ndef set_up():\n    os.environ['THEIR_SETUP'] = 'ran'\n"


def test_a_submitted_job_with_a_runtime_env_of_its_own(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    (folder / "their_setup.py").write_text(SETUP)
    with HttpSink() as sink, Head(dashboard=True, environment=HEADERS) as head:
        variables = ours(sink)  # equal to ours, key by key
        runtime_env = {"env_vars": variables, "working_dir": str(folder)}
        submit = [RAY, "job", "submit", "--address", f"http://127.0.0.1:{head.dashboard}"]
        command = [*submit, "--runtime-env-json", json.dumps(runtime_env), "--", sys.executable, "cluster_program.py"]
        found, printed = drive("auto", environment={}, command=command)
        assert_reached(found, sink, tasks=2)
        assert_every_export_carries_the_token(sink)
        assert all(one["folder"].startswith("_ray_pkg") for one in found["found"])  # their working_dir
        assert TOKEN not in printed + head.jobs() + head.written()


def test_a_submitted_job_that_brings_a_set_up_function_keeps_it(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    (folder / "their_setup.py").write_text(SETUP)
    with HttpSink() as sink, Head(dashboard=True) as head:
        runtime_env = {
            "env_vars": ours(sink),
            "working_dir": str(folder),
            "worker_process_setup_hook": "their_setup.set_up",
        }
        submit = [RAY, "job", "submit", "--address", f"http://127.0.0.1:{head.dashboard}"]
        command = [*submit, "--runtime-env-json", json.dumps(runtime_env), "--", sys.executable, "cluster_program.py"]
        found, _ = drive("auto", environment={}, command=command)
        assert_reached(found, sink, tasks=2)
    assert {one["theirs"] for one in found["found"]} == {"ran"}


def test_through_a_ray_client_tasks_run_as_before_and_get_the_settings():
    # Ray's proxy forks with gRPC's threads about, whose own handlers then crash the child now and then.
    with HttpSink() as sink, Head(client=True, environment={"GRPC_ENABLE_FORK_SUPPORT": "0"}) as head:
        found, printed = drive(f"ray://127.0.0.1:{head.client}", environment=ours(sink))
    # What makes them ours is verl's plugin, where a worker imports verl; this program's don't.
    assert {one["role"] for one in found["found"]} == {"worker"}
    assert {one["endpoint"] for one in found["found"]} == {sink.endpoint}
    assert "Ray Client" in printed


def test_uv_run(tmp_path):
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("uv is not installed here")
    with HttpSink() as sink:
        command = [uv, "run", "--no-project", "--python", sys.executable, str(PROGRAM)]
        # uv has Ray send the whole working directory to the workers.
        found, _ = drive(environment={**ours(sink), "UV_OFFLINE": "1"}, command=command, cwd=tmp_path)
        assert_reached(found, sink, tasks=2)


def test_two_runs_in_two_clusters_at_once_do_not_mix():
    with HttpSink() as sink:
        command = [sys.executable, str(PROGRAM)]
        pair = [
            subprocess.Popen(command, env=clean_environment(**ours(sink)), stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        printed = [one.communicate(timeout=240)[0] for one in pair]
    found = [json.loads(text[text.index("FOUND") + 5 :]) for text in printed]
    runs = [{one["run"] for one in each["found"]} for each in found]
    assert all(len(one) == 1 for one in runs)
    assert runs[0] != runs[1]


def test_the_doctor_asks_every_node():
    doctor = [str(Path(sys.executable).parent / "verl-otel"), "doctor", "--json"]
    with HttpSink() as sink, Head(nodes=2) as head:
        result = subprocess.run(
            [*doctor, "--address", head.address],
            env=clean_environment(**ours(sink)),
            capture_output=True,
            text=True,
            timeout=240,
        )
    told = json.loads(result.stdout)
    nodes = [one for one in told["findings"] if one["link"] == "nodes"]
    assert len({one["name"] for one in nodes if "instrumented" in one["detail"]}) == 2
    assert sum(one["state"] == "ok" and "traces" in one["name"] for one in nodes) == 2
    assert (told["ok"], result.returncode) == (True, 0), result.stdout
