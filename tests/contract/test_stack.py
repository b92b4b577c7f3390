"""Every configuration of the stack, by the programs that are to read it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from programs import STACK, build_cluster_collector, build_collector, built, go, run
from verl_otel.stack.releases import RELEASES

COLLECTOR = STACK / "collector"
AGENT = ("agent.yaml", "agent-secure.yaml", "kubernetes.yaml")
OVERLAYS = sorted(
    path.name for path in COLLECTOR.glob("*.yaml") if path.name not in ("builder.yaml", "collector.yaml", *AGENT)
)


@pytest.fixture(scope="module")
def collector():
    return built("collector", build_collector)


@pytest.fixture(scope="module")
def cluster_collector():
    return built("cluster-collector", build_cluster_collector)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """A certificate of its own making, and a token."""
    folder = tmp_path_factory.mktemp("secrets")
    certificate, key, token = folder / "certificate.pem", folder / "key.pem", folder / "token"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    token.write_text("a token\n")
    return {
        "TLS_CERTIFICATE": str(certificate),
        "TLS_KEY": str(key),
        "TLS_CA": str(certificate),
        "TOKEN_FILE": str(token),
        "NODE": "node",
    }


def validate(collector, *names, **environment):
    """(exit code, what it said) of these, each over the one before."""
    files = [f"--config={COLLECTOR / name}" for name in names]
    done = subprocess.run(
        [collector, "validate", *files], env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("overlay", [(), *((name,) for name in OVERLAYS)], ids=["alone", *OVERLAYS])
def test_the_collector_takes_it(collector, secrets, overlay):
    code, said = validate(collector, "collector.yaml", *overlay, **secrets)
    assert (code, said) == (0, ""), said
    assert "deprecated" not in said


def test_overlays_go_together(collector, secrets):
    together = ("token.yaml", "tls.yaml", "remote-write.yaml", "tail-sampling.yaml", "no-logs.yaml")
    code, said = validate(collector, "collector.yaml", *together, **secrets)
    assert code == 0, said


@pytest.mark.parametrize("overlays", [(), AGENT[1:2], AGENT[2:], AGENT[1:]], ids=["alone", "secure", "k8s", "both"])
def test_an_agents_collector_takes_it(cluster_collector, secrets, overlays):
    code, said = validate(cluster_collector, "agent.yaml", *overlays, **secrets)
    assert (code, said) == (0, ""), said


def test_a_missing_token_is_said(collector):
    code, said = validate(collector, "collector.yaml", "token.yaml", TOKEN_FILE="")
    assert code != 0
    assert "token" in said


@pytest.mark.parametrize("name", ["prometheus-2.yaml"])
def test_debians_prometheus_takes_it(name):
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("left out: there is no promtool here (Debian's package prometheus has it)")
    done = subprocess.run([promtool, "check", "config", STACK / "prometheus" / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


def test_nothing_listens_beyond_loopback_unless_told():
    for path in COLLECTOR.glob("*.yaml"):
        for line in path.read_text().splitlines():
            if line.strip().startswith("endpoint:") and "_ADDRESS" in line and "TEMPO" not in line:
                assert ":-127.0.0.1:" in line, line


def test_kubernetes_takes_its_files():
    seen = set()
    for path in sorted((STACK / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            kubernetes_validate.validate(document, "1.33", strict=True)
            seen.add(document["kind"])
    assert {"DaemonSet", "StatefulSet", "Service", "ClusterRole"} <= seen


def test_kustomize_finds_what_it_names():
    told = yaml.safe_load((STACK / "kustomization.yaml").read_text())
    named = [*told["resources"], *(name for one in told["configMapGenerator"] for name in one["files"])]
    assert [name for name in named if not (STACK / name).is_file()] == []
    # What containers are told to read is in their ConfigMaps.
    maps = {one["name"]: {name.rsplit("/", 1)[1] for name in one["files"]} for one in told["configMapGenerator"]}
    for kind in ("agent", "gateway"):
        (workload,) = (
            one
            for one in yaml.safe_load_all((STACK / "kubernetes" / f"{kind}.yaml").read_text())
            if one["kind"] in ("DaemonSet", "StatefulSet")
        )
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        read = {one.rsplit("/", 1)[1] for one in container["args"]}
        assert read == maps[f"verl-otel-{kind}"]


def test_compose_takes_its_file(tmp_path):
    path = "github.com/compose-spec/compose-go/v2"
    run(go(), "mod", "init", "stack", folder=tmp_path)
    run(go(), "get", "-tool", f"{path}/cmd@v2.16.2", folder=tmp_path)
    run(go(), "build", "-o", "compose", f"{path}/cmd", folder=tmp_path)
    done = subprocess.run([tmp_path / "compose", "compose.yaml"], cwd=STACK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    told = yaml.safe_load(done.stdout)
    opened = [one for service in told["services"].values() for one in service.get("ports", ())]
    assert opened
    assert {one["host_ip"] for one in opened} == {"127.0.0.1"}
    volumes = [one for service in told["services"].values() for one in service["volumes"] if one["type"] == "bind"]
    assert [one["source"] for one in volumes if not Path(one["source"]).is_dir()] == []


def test_containers_are_of_the_versions_that_install_fetches():
    images = re.findall(r"image: (\S+?):v?([\d.]+)", "".join(path.read_text() for path in STACK.rglob("*.yaml")))
    names = {"opentelemetry-collector-contrib": "collector"}
    assert {(names.get(name := image.rsplit("/", 1)[1], name), version) for image, version in images} == {
        (one.name, one.version) for one in RELEASES.values()
    }


def test_builder_and_release_are_of_one_version():
    assert f"version: {RELEASES['collector'].version}\n" in (COLLECTOR / "builder.yaml").read_text()
