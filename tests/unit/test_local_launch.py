"""How a command is started: by which door, with which variables, and how signals and exit codes pass."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from verl_otel.local import launch


@pytest.mark.parametrize("python", ["python", "python3", "/usr/bin/python3.12", sys.executable])
def test_python_is_started_by_the_launcher_in_its_own_environment(python):
    command, variables = launch.observed([python, "-m", "verl.trainer.main_ppo", "a=b"])
    assert command[0] == python
    assert command[-4:] == [python, "-m", "verl.trainer.main_ppo", "a=b"]
    assert variables == {}


@pytest.mark.parametrize("program", ["torchrun", "./train.sh", "pythonista", "python-config"])
def test_what_starts_python_itself_is_reached_by_the_plugin(program):
    assert launch.observed([program, "x"]) == ([program, "x"], {"VERL_OTEL_ENABLED": "true"})


def test_what_is_instrumented_already_is_left_alone():
    command = ["/v/bin/opentelemetry-instrument", "python", "-m", "x"]
    assert launch.observed(command) == (command, {})


def test_where_to_send_is_ours_and_the_rest_the_users():
    given = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://theirs", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://theirs",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "always_on", "PATH": "/bin",
    }  # fmt: skip
    found = launch.environment("http://127.0.0.1:4318", None, given)
    assert found == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_SAMPLER": "always_on", "PATH": "/bin",
    }  # fmt: skip


def test_a_proxy_does_not_catch_loopback():
    given = {"HTTPS_PROXY": "http://proxy:1", "no_proxy": "internal, 127.0.0.1"}
    found = launch.environment("http://127.0.0.1:4318", None, given)
    assert found["no_proxy"] == "internal,127.0.0.1,localhost,::1"
    assert found["NO_PROXY"] == "127.0.0.1,localhost,::1"
    assert launch.environment("u", None, {"http_proxy": "p", "no_proxy": "*"})["no_proxy"] == "*"


def run(code, *, variables=None):
    return launch.follow([sys.executable, "-c", code], {**os.environ, **(variables or {})})


def test_the_exit_code_is_the_commands_own():
    assert run("raise SystemExit(7)") == 7
    assert run("pass") == 0
    assert run("import os; os.kill(os.getpid(), 9)") == 137


def test_the_command_starts_with_no_signal_blocked():
    code = "import signal, sys; sys.exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert run(code) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


FOLLOW = textwrap.dedent("""
    import sys
    from verl_otel.local import launch
    sys.exit(launch.follow([sys.executable, "-c", sys.argv[1]], {}))
""")
COUNT = textwrap.dedent("""
    import signal, sys, time
    seen = []
    for number in (2, 15, 10):
        signal.signal(number, lambda number, _: seen.append(number))
    print("ready", flush=True)
    end = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.3)
    print(seen, flush=True)
    sys.exit(42)
""")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_handed_on_once(number):
    with subprocess.Popen([sys.executable, "-c", FOLLOW, COUNT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.read() == f"[{int(number)}, 10]\n"
        assert process.wait(20) == 42


def test_ctrl_c_of_a_terminal_reaches_the_command_once():
    """The terminal sends it to every process in front of it: handed on as well, it would come twice."""
    pty = pytest.importorskip("pty")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", FOLLOW, COUNT.replace("< 2", "< 1")])
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    end = time.monotonic() + 20
    while b"]" not in output and time.monotonic() < end:
        output += os.read(terminal, 1000)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert b"[2]" in output
    assert os.waitstatus_to_exitcode(status) == 42


def test_what_can_not_be_run_has_a_shells_exit_codes(tmp_path):
    (tmp_path / "text").write_text("x")
    with pytest.raises(launch.CommandError) as raised:
        launch.check([str(tmp_path / "text")])
    assert raised.value.code == 126
    with pytest.raises(launch.CommandError, match="no command 'nowhere'") as raised:
        launch.check(["nowhere"])
    assert raised.value.code == 127
