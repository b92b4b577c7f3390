"""The tests that need no verl, on other Pythons and on the oldest and an intermediate OpenTelemetry.

Runs what this machine has and says what it left out. usage: python tests/matrix.py
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ["-r", str(ROOT / "tests" / "floors.txt")]


def release(number: str, beta: str) -> list[str]:
    """OpenTelemetry's packages of one release."""
    stable = [f"{name}=={number}" for name in ("opentelemetry-sdk", "opentelemetry-exporter-otlp")]
    return [*stable, f"opentelemetry-instrumentation=={beta}"]


ROWS = (
    ("python3.10", "oldest OpenTelemetry", FLOORS),
    ("python3.11", "OpenTelemetry 1.36", release("1.36.0", "0.57b0")),
    ("python3.12", "OpenTelemetry 1.38", release("1.38.0", "0.59b0")),
    ("python3.13", "current OpenTelemetry", ["opentelemetry-exporter-otlp"]),
)
ALWAYS = ("pytest==9.2.0", "numpy", "packaging", "setuptools<81", "prometheus-client", "nvidia-ml-py")
ALWAYS += ("httpx<0.28", "httpx2")  # what an older and a current Starlette are tested with
TESTS = (
    "tests/unit",
    "tests/contract/test_otel_internals.py",
    *(f"tests/integration/test_{name}.py" for name in ("delivery", "interop", "variables")),
)


def main() -> int:
    failed = 0
    for python, title, requirements in ROWS:
        if (path := find(python)) is None:
            print(f"{python}, {title}: left out, there is no {python} that can make a venv here", flush=True)
            continue
        print(f"{python}, {title}:", flush=True)
        failed += (
            subprocess.run([str(prepare(path, requirements)), "-m", "pytest", "-q", *TESTS], cwd=ROOT).returncode != 0
        )
    return 1 if failed else 0


def find(python: str) -> str | None:
    """An interpreter that runs and can make a venv: on PATH, or one of pyenv's."""
    on_path = [found] if (found := shutil.which(python)) else []
    pyenv = sorted(map(str, Path.home().glob(f".pyenv/versions/{python.removeprefix('python')}*/bin/{python}")))
    for one in (*on_path, *pyenv):
        if subprocess.run([one, "-c", "import ensurepip"], capture_output=True).returncode == 0:
            return one
    return None


def prepare(path: str, requirements: list[str], name: str | None = None, before: tuple[str, ...] = ()) -> Path:
    """A venv with the package and these requirements; made once.

    `name`: of its folder, the Python's unless given. `before`: what is in it when the package is installed.
    """
    folder = ROOT / ".work" / "matrix" / (name or Path(path).name)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    wanted = repr([*before, *ALWAYS, *requirements])
    if not (done := folder / "done").exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([path, "-m", "venv", str(folder)], check=True)
        if before:
            subprocess.run([*pip, *before], check=True)
        subprocess.run([*pip, *ALWAYS, *requirements, "-e", f"{ROOT}[local]"], check=True)
        done.write_text(wanted)
    return python


if __name__ == "__main__":
    sys.exit(main())
