"""The demo's installer: what a machine lacks is one line, said before anything is fetched."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("install")
import install


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """No venv yet, and a test that tries to fetch anything fails."""
    monkeypatch.setattr(install, "VENV", str(tmp_path / "venv"))
    monkeypatch.setattr(install, "WORK", str(tmp_path / "venv" / "kit"))
    monkeypatch.setattr(install, "install", lambda *_: pytest.fail("went on to install"))
    monkeypatch.setattr(sys, "argv", ["install.py"])
    monkeypatch.setattr(install, "available_memory", lambda: 16.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100 * 10**9, 0, 50 * 10**9))


def one_line(capsys):
    (line,) = capsys.readouterr().out.strip().splitlines()
    return line


def test_too_little_disk(fresh, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**10, 0, 3 * 10**9))
    assert install.main() == 2
    assert "Needs 10 GB of disk" in one_line(capsys)


def test_too_little_memory(fresh, monkeypatch, capsys):
    monkeypatch.setattr(install, "available_memory", lambda: 3.2)
    assert install.main() == 2
    assert "Needs 8 GiB of free memory" in one_line(capsys)


def test_another_system(fresh, monkeypatch, capsys):
    monkeypatch.setattr(install.platform, "machine", lambda: "aarch64")
    assert install.main() == 2
    assert "Needs Linux on x86-64" in one_line(capsys)


def test_no_fitting_python(fresh, monkeypatch, capsys):
    monkeypatch.setenv("PYTHON", "python-that-is-nowhere")
    assert install.main() == 2
    assert "python-that-is-nowhere is not on PATH" in one_line(capsys)


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("CPython 3 13", "is CPython 3.13"),
        ("PyPy 3 11", "is PyPy 3.11"),
        ("", "doesn't run"),
        ("CPython 3 11", None),
    ],
)
def test_what_is_wrong_with_a_python(tmp_path, printed, problem):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {printed}\n")
    python.chmod(0o755)
    assert install.python_problem(str(python)) == problem


def test_a_python_without_venv_is_told(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho CPython 3 11\nexit 1\n")
    python.chmod(0o755)
    assert "no venv" in install.python_problem(str(python))


def test_a_failing_step_shows_the_end_of_its_log_and_its_place(fresh, monkeypatch, tmp_path, capsys):
    def fail(*_):
        install.run("step", "the step", [[sys.executable, "-c", "print('why'); raise SystemExit(1)"]])

    monkeypatch.setattr(install, "install", fail)
    monkeypatch.setattr(install, "find_python", lambda: sys.executable)
    assert install.main() == 1
    printed = capsys.readouterr().out
    assert "the step failed; the whole log is" in printed
    assert "why" in printed


def test_the_script_needs_nothing_but_the_standard_library():
    tree = ast.parse(Path(install.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
    assert names - sys.stdlib_module_names == set()
