"""The wheel as a user gets it: what is in it, and that with `[local]` it needs no network, no Node and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("wheel_program.py")
PAGE = "verl_otel/local/page/"
LAZY = ("duckdb", "orjson", "starlette", "uvicorn", "numpy", "click", "rich")
"""What a training process must not pay for."""


class Venv:
    """Of these requirements and nothing else, made with this Python."""

    def __init__(self, folder, *requirements):
        self.folder, self.bin = folder, folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.install(*requirements)

    def install(self, *requirements):
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", *requirements], check=True)

    def run(self, program, *words, cwd, **more):
        # Neither this checkout nor a Node is to be found.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "VERL_", "PYTHON"))}
        return subprocess.run(
            [self.bin / program, *map(str, words)],
            cwd=cwd, env={**kept, "PATH": str(self.bin), **more}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    @property
    def packages(self):
        return {one.name.partition("-")[0] for one in self.folder.glob("lib/*/site-packages/*.dist-info")}


@pytest.fixture(scope="module")
def building(tmp_path_factory):
    """A venv that can build, and has no Node."""
    made = Venv(tmp_path_factory.mktemp("building") / "venv", "hatchling>=1.24")
    assert shutil.which("node", path=str(made.bin)) is None
    return made


def build(building, source, target, *kinds):
    """The file of each kind."""
    wanted = [word for kind in kinds for word in ("-t", kind)]
    done = building.run("python", "-m", "hatchling", "build", *wanted, "-d", target, cwd=source)
    assert done.returncode == 0, f"{done.stderr}\n(a page that isn't up to date is built by `make page`)"
    found = [next(target.glob("*.whl" if kind == "wheel" else "*.tar.gz")) for kind in kinds]
    return found if len(found) > 1 else found[0]


@pytest.fixture(scope="module")
def built(building, tmp_path_factory):
    """Wheel and sdist of this checkout."""
    return build(building, ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist")


@pytest.fixture(scope="module")
def wheel(built):
    return built[0]


@pytest.fixture(scope="module")
def plain(wheel, tmp_path_factory):
    return Venv(tmp_path_factory.mktemp("plain") / "venv", wheel)


@pytest.fixture(scope="module")
def local(wheel, tmp_path_factory):
    return Venv(tmp_path_factory.mktemp("local") / "venv", f"{wheel}[local]")


def contents(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_the_page_is_in_the_wheel(wheel):
    page = {name.removeprefix(PAGE): body for name, body in contents(wheel).items() if name.startswith(PAGE)}
    folder = ROOT / "src" / PAGE
    assert page == {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    manifest = json.loads(page["manifest.json"])
    assert {"index.html", "assets/licenses.txt", manifest["script"], manifest["style"]} <= set(page)
    print(f"wheel {wheel.stat().st_size / 1e6:.2f} MB, of it page {sum(map(len, page.values())) / 1e6:.2f} MB unpacked")


def test_the_sdist_gives_the_same_wheel_without_node(building, built, tmp_path):
    wheel, sdist = built
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert not (source / "page" / "node_modules").exists()
    again = build(building, source, tmp_path / "dist", "wheel")
    assert again.name == wheel.name
    before, after = contents(wheel), contents(again)
    assert set(after) == set(before)
    assert [name for name in before if after[name] != before[name]] == []


def namespaced():
    """What has a program run without any network, where that can be had."""
    words = ["unshare", "--map-root-user", "--net"]
    possible = shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if possible else []


def test_it_serves_without_a_network(local, plain, tmp_path):
    folder, home = tmp_path / "folder", tmp_path / "home"
    home.mkdir()
    alone = namespaced()
    done = subprocess.run(
        [*alone, local.bin / "python", "-I", PROGRAM, folder],
        env={"HOME": str(home), "PATH": os.environ["PATH"]}, cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["answers"]) > 15
    assert set(found["answers"].values()) == {200}, found["answers"]
    assert (found["before"], found["sent"], found["runs"]) == ([], 200, ["wheel"])
    assert found["code"] == 0
    assert not (folder / "backend.json").exists()
    # Nothing was fetched: nobody asked the proxy, and no library keeps a thing at home (as DuckDB does its extensions).
    assert "asked_of_the_proxy" not in found, found
    assert not (alone and found["reaches_out"])
    assert list(home.rglob("*")) == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "home"]
    more = sorted(local.packages - plain.packages)
    print(f"ready after {found['ready']:.1f} s; [local] brings {len(more)} packages to {len(plain.packages)}: {more}")


def test_a_training_process_imports_nothing_of_it(local, tmp_path):
    ask = f"import sys, verl_otel; print([one for one in {LAZY} if one in sys.modules])"
    done = local.run("python", "-c", ask, cwd=tmp_path)
    assert done.stdout == "[]\n", done.stderr


def test_without_extras_one_line_says_which_is_missing(plain, wheel, tmp_path):
    assert not {"duckdb", "starlette", "uvicorn", "click", "rich"} & plain.packages
    assert plain.run("python", "-c", "import verl_otel", cwd=tmp_path).returncode == 0
    done = plain.run("verl-otel", "up", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "verl-otel's command needs click: install the extra `cli` (click and rich)\n"

    plain.install(f"{wheel}[cli]")
    done = plain.run("verl-otel", "up", "--folder", tmp_path / "folder", cwd=tmp_path)
    assert done.returncode == 1
    missing = "duckdb, orjson, starlette, uvicorn missing"
    assert done.stderr == f"Error: this needs the extra `local`: pip install 'verl-otel[local]' ({missing})\n"
    assert not (tmp_path / "folder").exists()
