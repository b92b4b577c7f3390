"""`verl-otel stack`, `env` and `doctor` as a user has them: real collector and Prometheus, stand-ins for the rest."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from programs import build_collector, build_prometheus, built, free_address
from stand_ins import HERE
from verl_otel.stack import supervision

VERL_OTEL = Path(sys.executable).with_name("verl-otel")


def command(*words, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "VERL_OTEL_"))}
    done = subprocess.run(
        [VERL_OTEL, *map(str, words)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    print(done.stdout, done.stderr)
    return done


class Stack:
    """One of the test's; `up` gives what it printed as JSON."""

    def __init__(self, folder):
        self.folder = folder

    def up(self, *words):
        done = self.command(
            "stack", "up", "--json",
            "--collector", built("collector", build_collector),
            "--prometheus", built("prometheus", build_prometheus),
            "--tempo", HERE / "tempo", "--grafana", HERE / "grafana", *words,
        )  # fmt: skip
        return done, json.loads(done.stdout) if done.returncode == 0 else None

    def command(self, *words, **environment):
        return command(*words, "--folder", self.folder, **environment)

    def states(self):
        return {one["name"]: one for one in json.loads(self.command("stack", "status", "--json").stdout)}


@pytest.fixture
def stack(tmp_path):
    # Longer than a socket's path may be.
    made = Stack(tmp_path / "a folder with 100 % blanks" / ("long" * 20))
    yield made
    made.command("stack", "down")
    assert supervision.leftovers(made.folder) == []


def listening(pids):
    """(address, port) of what these processes listen on, TCP of both kinds."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            name = str(link.readlink())
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


def wait_for(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def test_up_status_env_doctor_down(stack):
    done, told = stack.up()
    assert done.returncode == 0, done.stderr
    states = stack.states()
    assert {name: one["is_ready"] for name, one in states.items()} == dict.fromkeys(
        ("prometheus", "tempo", "grafana", "collector"), True
    )
    pids = {name: one["pid"] for name, one in states.items()}

    # Nothing listens beyond loopback, and on nothing but what was printed.
    found = listening(pids.values())
    assert {address for address, _ in found} == {"0100007F"}
    ours = {
        told["ports"][name] for name in told["ports"] if name not in ("tempo-otlp", "tempo-grpc", "tempo-memberlist")
    }
    assert {port for _, port in found} == ours
    # Nobody else reads what is in it.
    assert stack.folder.stat().st_mode & 0o077 == 0
    assert (stack.folder / "grafana-password").stat().st_mode & 0o077 == 0

    grafana = requests.get(f"{told['grafana']}/api/health", timeout=5).json()
    assert grafana["PROMETHEUS_URL"] == told["prometheus"]
    assert grafana["TEMPO_URL"] == told["tempo"]
    assert grafana["GF_SECURITY_ADMIN_PASSWORD"] == f"$__file{{{stack.folder / 'grafana-password'}}}"

    again, _ = stack.up()
    assert "up already" in again.stderr
    assert {name: one["pid"] for name, one in stack.states().items()} == pids

    variables = json.loads(stack.command("env", "--json").stdout)
    exported = subprocess.run(
        ["sh", "-c", f"{stack.command('env').stdout}\nenv"], capture_output=True, text=True, check=True, env={}
    ).stdout
    assert all(f"{name}={value}" in exported.splitlines() for name, value in variables.items())

    findings = json.loads(stack.command("doctor", "--json", **variables).stdout)["findings"]
    told_of = {one["name"]: one for one in findings if one["link"] in ("stack", "endpoint")}
    assert {told_of[name]["state"] for name in ("traces", "metrics", "logs", "a series", "stores", "rules")} == {"ok"}
    assert told_of["a trace"]["state"] == "failed", "a stand-in stores none"
    assert told_of["panels"]["state"] == "note"

    # A program that ends is started again.
    os.kill(pids["prometheus"], signal.SIGKILL)
    wait_for(lambda: stack.states()["prometheus"]["pid"] not in (0, pids["prometheus"]), "a new Prometheus")
    wait_for(lambda: stack.states()["prometheus"]["is_ready"], "a ready Prometheus")
    assert "prometheus" in stack.command("stack", "logs", "prometheus").stdout.lower()

    assert stack.command("stack", "down").stdout.strip() == "stopped"
    assert supervision.leftovers(stack.folder) == []
    assert stack.command("stack", "status").returncode == 3
    assert stack.command("stack", "down").stdout.strip() == "nothing was running"


def test_ports_that_are_taken(stack):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done, _ = stack.up("--port", f"prometheus={port}")
        assert done.returncode == 1
        (line,) = done.stderr.strip().splitlines()
        assert f"port {port} on 127.0.0.1" in line
        assert "Address already in use" in line
        assert supervision.leftovers(stack.folder) == []
    usual = socket.socket()
    with usual:
        usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        usual.bind(("127.0.0.1", 9090))
        usual.listen()
        done, told = stack.up()
        assert done.returncode == 0, done.stderr
        assert told["ports"]["prometheus"] != 9090


def test_a_supervisor_that_was_killed_is_cleaned_up_after(stack):
    stack.up("--without", "tempo", "--without", "grafana")
    before = supervision.leftovers(stack.folder)
    os.kill(int((stack.folder / "supervisord.pid").read_text()), signal.SIGKILL)
    wait_for(lambda: len(supervision.leftovers(stack.folder)) == len(before) - 1, "its end")
    assert stack.command("stack", "status").returncode == 3
    done, _ = stack.up("--without", "tempo", "--without", "grafana")
    assert done.returncode == 0, done.stderr
    assert "was not stopped" in done.stderr
    assert set(before) & set(supervision.leftovers(stack.folder)) == set()


def test_two_at_once(stack):
    stack.folder.mkdir(parents=True)
    held = subprocess.Popen(["flock", stack.folder / "lock", "sleep", "30"])
    try:
        wait_for(lambda: (stack.folder / "lock").exists(), "the lock")
        time.sleep(0.2)
        done, _ = stack.up()
        assert done.returncode == 1
        assert "another verl-otel stack command" in done.stderr
    finally:
        held.kill()
        held.wait()
        subprocess.run(["pkill", "-P", str(held.pid)], check=False)


def test_a_program_that_does_not_come_up(stack, tmp_path):
    broken = tmp_path / "tempo"
    broken.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo tempo, version 2.10.8 && exit\necho no such key: compactor\nexit 1\n"
    )
    broken.chmod(0o755)
    done, _ = stack.up("--tempo", broken)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "tempo doesn't come up: no such key: compactor" in line
    assert supervision.leftovers(stack.folder) == []


def test_beyond_loopback_there_is_a_token_and_tls(stack, tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=stack",
            "-addext", "subjectAltName=IP:127.0.0.2", "-keyout", key, "-out", certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    done, told = stack.up("--bind", "127.0.0.2", "--tls-certificate", certificate, "--tls-key", key)
    assert done.returncode == 0, done.stderr
    token = Path(told["token_file"])
    assert token.stat().st_mode & 0o077 == 0
    states = stack.states()
    beyond = {port for address, port in listening([one["pid"] for one in states.values()]) if address != "0100007F"}
    assert beyond == {told["ports"][name] for name in ("otlp-grpc", "otlp-http", "grafana")}

    url = f"{told['otlp']}/v1/traces"
    ask = {"data": b"", "headers": {"Content-Type": "application/x-protobuf"}, "timeout": 5, "verify": str(certificate)}
    assert url.startswith("https://127.0.0.2:")
    assert requests.post(url, **ask).status_code == 401
    ask["headers"]["Authorization"] = f"Bearer {token.read_text().strip()}"
    assert requests.post(url, **ask).status_code == 200
    assert json.loads(requests.get(f"{told['grafana']}/", timeout=5).text)["GF_AUTH_ANONYMOUS_ENABLED"] == "false"

    # No notation shows the token, and what they name works.
    secret = token.read_text().strip()
    for notation in ("shell", "ray", "kubernetes", "slurm"):
        assert secret not in stack.command("env", "--for", notation).stdout
    variables = json.loads(stack.command("env", "--json").stdout)
    findings = json.loads(stack.command("doctor", "--json", **variables).stdout)["findings"]
    by_name = {one["name"]: one for one in findings if one["link"] in ("stack", "endpoint")}
    assert {by_name[name]["state"] for name in ("traces", "metrics", "logs", "a series")} == {"ok"}
    del variables["VERL_OTEL_HEADERS_FILE"]
    findings = json.loads(stack.command("doctor", "--json", **variables).stdout)["findings"]
    (refused,) = (one for one in findings if one["link"] == "endpoint" and one["name"] == "traces")
    assert "asks for a token" in refused["remedy"]


def test_stores_that_are_there_already(stack):
    nobody = free_address()
    done, told = stack.up("--without", "grafana", "--traces-to", nobody, "--logs-to", f"http://{nobody}/v1/logs")
    assert done.returncode == 0, done.stderr
    assert told["tempo"] == nobody
    assert set(stack.states()) == {"prometheus", "collector"}
    started = Path(f"/proc/{stack.states()['collector']['pid']}/cmdline").read_text()
    assert "no-logs.yaml" not in started
    environment = Path(f"/proc/{stack.states()['collector']['pid']}/environ").read_text().split("\0")
    assert f"TEMPO_ADDRESS={nobody}" in environment


def test_notations_are_what_they_are_for(stack):
    stack.up("--without", "tempo", "--without", "grafana")
    import yaml

    variables = json.loads(stack.command("env", "--json").stdout)
    assert yaml.safe_load(stack.command("env", "--for", "ray").stdout) == {"env_vars": variables}
    pod = yaml.safe_load(stack.command("env", "--for", "kubernetes").stdout)
    assert {one["name"]: one["value"] for one in pod["env"]} == variables
    slurm = stack.command("env", "--for", "slurm").stdout
    assert slurm.startswith("# This stack listens on loopback")
    assert [shlex.split(line)[1] for line in slurm.splitlines()[1:]] == [f"{k}={v}" for k, v in variables.items()]
