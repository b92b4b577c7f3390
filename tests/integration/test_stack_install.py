"""`verl-otel stack install` and `bundle`, from a publisher of the test's own making: all, or nothing and one line."""

import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from verl_otel.cli.commands import commands
from verl_otel.stack.releases import RELEASES

pytestmark = pytest.mark.skipif(shutil.which("unshare") is None, reason="left out: there is no unshare here")


def archive(release, *, files=None, version=None):
    """A release archive whose program says its version and no more."""
    version = version or release.version
    script = f"#!/bin/sh\necho {release.name}, version {version}\n".encode()
    files = files if files is not None else {f"{release.name}-{version}/{release.binary}": script}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            packed.addfile(member, io.BytesIO(content))
    return made.getvalue()


class Publisher:
    """A mirror's folder, and the server that gives it; what is put there is what publishers put."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url

    def publish(self, release, content, *, stated=None):
        """`stated`: the text of the checksums; else what is true, as its publisher writes it."""
        where, checksums = (self._place(url) for url in release.urls())
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        lone = checksums.name.endswith(".sha256")
        others = f"{'0' * 64}  other.tar.gz\n"
        checksums.write_text(stated or (digest if lone else f"{others}{digest}  {where.name}\n"))

    def _place(self, url):
        return self.folder / url.removeprefix("https://")


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def mirror(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirror")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Publisher(folder, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()


@pytest.fixture
def publisher(mirror):
    """With all four released."""
    for release in RELEASES.values():
        mirror.publish(release, archive(release))
    return mirror


def command(*words):
    return CliRunner().invoke(commands, ["stack", *map(str, words)])


def install(publisher, folder, *words):
    return command("install", *words, "--mirror", publisher.url, "--folder", folder)


def left(folder):
    """Everything below the folder of programs."""
    programs = folder / "programs"
    return sorted(path.name for path in programs.iterdir()) if programs.exists() else []


def one_line(result):
    lines = (result.stderr or result.output).strip().splitlines()
    assert result.exit_code == 1, result.output
    assert len(lines) == 1, lines
    return lines[0]


def test_all_four_are_installed_and_run(publisher, tmp_path):
    assert install(publisher, tmp_path).exit_code == 0
    assert left(tmp_path) == sorted(f"{one.name}-{one.version}" for one in RELEASES.values())
    for release in RELEASES.values():
        binary = tmp_path / "programs" / f"{release.name}-{release.version}" / release.binary
        said = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
        assert release.version in said


def test_what_is_there_is_not_fetched_again(publisher, tmp_path):
    assert install(publisher, tmp_path, "tempo").exit_code == 0
    publisher.publish(RELEASES["tempo"], b"something else")
    assert install(publisher, tmp_path, "tempo").exit_code == 0


def test_a_wrong_checksum(publisher, tmp_path):
    release = RELEASES["prometheus"]
    name = release.urls()[0].rsplit("/", 1)[1]
    publisher.publish(release, archive(release), stated=f"{'ab' * 32}  {name}\n")
    assert "not what its publisher states" in one_line(install(publisher, tmp_path, "prometheus"))
    assert left(tmp_path) == []


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.95], ids=["empty", "a third", "nearly all"])
def test_a_damaged_archive(publisher, tmp_path, keep):
    release = RELEASES["collector"]
    filler = {f"otelcol/{number}": os.urandom(4096) for number in range(40)}
    whole = archive(release, files={**filler, release.binary: b"#!/bin/sh\n"})
    publisher.publish(release, whole[: int(len(whole) * keep)])
    assert "damaged" in one_line(install(publisher, tmp_path, "collector"))
    assert left(tmp_path) == []


def test_an_archive_without_the_program(publisher, tmp_path):
    publisher.publish(RELEASES["tempo"], archive(RELEASES["tempo"], files={"README.md": b"hello"}))
    assert "holds no tempo" in one_line(install(publisher, tmp_path, "tempo"))
    assert left(tmp_path) == []


def test_an_archive_that_reaches_out_of_its_folder(publisher, tmp_path):
    hostile = {"../../out": b"hostile", "tempo": b"#!/bin/sh\n"}
    publisher.publish(RELEASES["tempo"], archive(RELEASES["tempo"], files=hostile))
    assert "damaged" in one_line(install(publisher, tmp_path, "tempo"))
    assert left(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_checksums_that_say_nothing_of_it(publisher, tmp_path):
    publisher.publish(RELEASES["tempo"], archive(RELEASES["tempo"]), stated=f"{'0' * 64}  other.tar.gz\n")
    assert "says nothing of tempo_" in one_line(install(publisher, tmp_path, "tempo"))
    assert left(tmp_path) == []


def test_a_server_without_it(publisher, tmp_path):
    for path in publisher.folder.rglob("SHA256SUMS"):
        path.unlink()
    assert "HTTP 404" in one_line(install(publisher, tmp_path, "tempo"))
    assert left(tmp_path) == []


def test_nobody_there(tmp_path):
    result = command("install", "tempo", "--mirror", "http://127.0.0.1:9", "--folder", tmp_path)
    assert "stack bundle" in one_line(result)
    assert left(tmp_path) == []


def test_a_full_disk(publisher, tmp_path):
    """On a file system of 1 MiB, in a namespace of its own."""
    release = RELEASES["grafana"]
    script = b"#!/bin/sh\n" + b"#" + os.urandom(3 << 20)
    publisher.publish(release, archive(release, files={f"grafana-{release.version}/{release.binary}": script}))
    program = Path(sys.executable).with_name("verl-otel")
    script = (
        f"mount -t tmpfs -o size=1m none {tmp_path} && "
        f"{program} stack install grafana --mirror {publisher.url} --folder {tmp_path}/stack; code=$?; "
        f"ls -A {tmp_path}/stack/programs; exit $code"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == "", "something half installed is left"


def test_a_bundle_installs_without_a_network(publisher, tmp_path):
    bundle = tmp_path / "bundle.tar"
    assert command("bundle", bundle, "--mirror", publisher.url).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.tar"]
    assert command("install", "--from", bundle, "--folder", tmp_path / "there").exit_code == 0
    assert len(left(tmp_path / "there")) == len(RELEASES)


def test_a_bundle_of_another_making(publisher, tmp_path):
    bundle = tmp_path / "bundle.tar"
    assert command("bundle", bundle, "--mirror", publisher.url, "--arch", "arm64").exit_code == 1
    with tarfile.open(bundle, "w"):
        pass
    assert "made by another version" in one_line(command("install", "--from", bundle, "--folder", tmp_path / "there"))
    bundle.write_bytes(b"nonsense")
    assert "damaged" in one_line(command("install", "--from", bundle, "--folder", tmp_path / "there"))
    assert "is not there" in one_line(
        command("install", "--from", tmp_path / "none.tar", "--folder", tmp_path / "there")
    )


def test_a_damaged_bundle_is_refused(publisher, tmp_path):
    """A member that is not what its publisher states."""
    bundle = tmp_path / "bundle.tar"
    assert command("bundle", bundle, "--mirror", publisher.url).exit_code == 0
    spoiled = tmp_path / "spoiled.tar"
    with tarfile.open(bundle) as whole, tarfile.open(spoiled, "w") as made:
        for member in whole.getmembers():
            content = whole.extractfile(member).read()
            content = content if "sha256" in member.name.lower() else content[:-1] + bytes([content[-1] ^ 1])
            made.addfile(member, io.BytesIO(content))
    assert "not what its publisher states" in one_line(
        command("install", "--from", spoiled, "--folder", tmp_path / "there")
    )
    assert left(tmp_path / "there") == []


def up(folder, *words):
    return command("up", "--folder", folder, *words)


def test_a_program_too_old(tmp_path):
    old = tmp_path / "prometheus"
    old.write_text("#!/bin/sh\necho prometheus, version 2.42.0\n")
    old.chmod(0o755)
    assert "takes 3.0.0 and newer" in one_line(up(tmp_path / "stack", "--prometheus", old))


def test_a_program_too_new(tmp_path, publisher):
    assert install(publisher, tmp_path / "stack", "prometheus", "collector").exit_code == 0
    new = tmp_path / "tempo"
    new.write_text("#!/bin/sh\necho tempo, version 3.0.3\n")
    new.chmod(0o755)
    assert "below 3.0.0" in one_line(up(tmp_path / "stack", "--tempo", new, "--without", "grafana"))


def test_a_program_that_does_not_run(tmp_path):
    broken = tmp_path / "prometheus"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    assert "doesn't run" in one_line(up(tmp_path / "stack", "--prometheus", broken))


def test_a_program_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "verl-otel stack install prometheus" in one_line(up(tmp_path / "stack"))


@pytest.mark.parametrize("wanted", ["prometheus", "prometheus=0", "prometheus=70000", "nobody=1", "prometheus=x"])
def test_a_port_that_makes_no_sense(tmp_path, publisher, wanted):
    assert install(publisher, tmp_path).exit_code == 0
    assert "NAME=NUMBER" in one_line(up(tmp_path, "--port", wanted))


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert "can't be written" in one_line(up(tmp_path / "file" / "stack"))


def test_no_stack_at_all(tmp_path):
    for words in (("status",), ("down",)):
        assert "there is no stack" in one_line(command(*words, "--folder", tmp_path))
    told = CliRunner().invoke(commands, ["env", "--folder", str(tmp_path)])
    assert "there is no stack" in one_line(told)


def test_a_broken_record_of_it(tmp_path):
    (tmp_path / "stack.json").write_text(json.dumps({"programs": 3}))
    assert "remove it" in one_line(command("status", "--folder", tmp_path))


def test_files_are_copied_out(tmp_path):
    assert command("files", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "compose.yaml").exists()
    assert not list((tmp_path / "out").rglob("*.py"))
