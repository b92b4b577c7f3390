"""Reaching workers on real Ray: what they are given, what stays the user's, and what never travels."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.verl
ray = pytest.importorskip("ray")

import verl_otel  # noqa: E402
from integration.conftest import ray_of_our_own  # noqa: E402
from verl_otel.ray import reach  # noqa: E402


def test_headers_and_the_identity_of_one_process_do_not_travel():
    found = reach.worker_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=secret",
            "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "gcp",
            "OTEL_RESOURCE_ATTRIBUTES": "team=rl,service.instance.id=1,host.name=me,process.pid=1",
            "VERL_OTEL_RUN_ID": "r",
            "HOME": "/home/me",
            "AWS_SECRET": "secret",
        }
    )
    assert found == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_RESOURCE_ATTRIBUTES": "team=rl",
        "VERL_OTEL_RUN_ID": "r",
        "VERL_OTEL_ENABLED": "true",
        "VERL_OTEL_ROLE": "worker",
    }


def test_what_the_runtime_env_has_it_keeps(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    theirs = {"env_vars": {"OTEL_SERVICE_NAME": "theirs"}, "working_dir": None}
    found = reach.reaching(theirs)
    assert found["env_vars"]["OTEL_SERVICE_NAME"] == "theirs"
    assert found["env_vars"]["VERL_OTEL_ROLE"] == "worker"
    assert found["working_dir"] is None
    assert theirs == {"env_vars": {"OTEL_SERVICE_NAME": "theirs"}, "working_dir": None}


def test_a_set_up_function_that_a_submitted_job_brings_is_left_alone():
    found = reach.reaching({"env_vars": {reach._SETUP_VARIABLE: "theirs.setup"}})
    assert reach._SETUP not in found
    assert found["env_vars"]["VERL_OTEL_ENABLED"] == "true"  # verl's plugin reaches those workers


def test_instrument_reaches_workers_before_verl_is_imported(tmp_path):
    body = """
import os, tempfile, verl_otel
verl_otel.instrument()
import ray
def role():
    import os
    return os.environ.get("VERL_OTEL_ROLE")
folder = tempfile.mkdtemp(prefix="vo-", dir="/tmp")
ray.init(num_cpus=1, include_dashboard=False, _temp_dir=folder + "/r", _node_ip_address="127.0.0.1",
         object_store_memory=100_000_000)
print("ROLE", ray.get(ray.remote(role).remote(), timeout=60))
ray.shutdown()
import shutil
shutil.rmtree(folder, ignore_errors=True)
"""
    quiet = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    loopback = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    result = subprocess.run(
        [sys.executable, "-c", body],
        env={**os.environ, **quiet, **loopback},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "ROLE worker" in result.stdout, result.stderr


def set_up_of_theirs():
    os.environ["THEIR_SETUP"] = "ran"


def look():
    import verl_otel.ray.context

    return {
        "instrumented": verl_otel.ray.context.__name__ in sys.modules,
        "role": os.environ.get("VERL_OTEL_ROLE"),
        "headers": os.environ.get("OTEL_EXPORTER_OTLP_HEADERS"),
        "endpoint": os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
        "theirs": os.environ.get("THEIR_SETUP"),
        "from_hook": os.environ.get("FROM_THEIR_HOOK"),
        "python_path": os.environ.get("PYTHONPATH", ""),
        "sdk": "opentelemetry.sdk.trace" in sys.modules,
        "torch": "torch" in sys.modules,
    }


@pytest.fixture
def instrumented(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("VERL_OTEL_FLUSH_TIMEOUT", "0")
    verl_otel.instrument()
    import verl  # noqa: F401

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    verl_otel.uninstrument()


AUTO = "/somewhere/opentelemetry/instrumentation/auto_instrumentation"


def test_workers_are_reached_beside_the_users_own_hooks(instrumented, monkeypatch, tmp_path):
    (tmp_path / "their_hook.py").write_text(
        "def hook(env):\n    env = dict(env or {})\n"
        "    env['env_vars'] = {**env.get('env_vars', {}), 'FROM_THEIR_HOOK': 'ran'}\n    return env\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", "their_hook.hook")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([AUTO, os.environ.get("PYTHONPATH", "")]))
    before = os.environ["PYTHONPATH"]
    with ray_of_our_own(monkeypatch, runtime_env={"worker_process_setup_hook": set_up_of_theirs}) as running:
        found = running.get(running.remote(look).remote())
        shown = running.get_runtime_context().runtime_env
    assert found["instrumented"]
    assert (found["role"], found["theirs"], found["from_hook"]) == ("worker", "ran", "ran")
    assert not found["torch"]  # an idle worker pays for no SDK, torch or verl
    assert not found["sdk"]
    assert AUTO not in found["python_path"]  # nor do Ray's daemons instrument themselves
    assert os.environ["PYTHONPATH"] == before
    assert os.environ["RAY_RUNTIME_ENV_HOOK"] == "their_hook.hook"
    assert "HEADERS" not in str(shown)


def test_a_ray_that_was_initialised_before_is_said_once_and_loudly(monkeypatch, caplog):
    import logging

    with ray_of_our_own(monkeypatch), caplog.at_level(logging.WARNING, "verl_otel"):
        import verl  # noqa: F401

        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
        verl_otel.instrument()
        verl_otel.instrument()
        verl_otel.uninstrument()
    assert len([one for one in caplog.messages if "Ray was initialised before verl-otel" in one]) == 1
