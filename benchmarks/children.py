"""Processes that are measured: started in a clean environment, asked by lines of JSON, never left behind.

Whatever is compared runs in processes of its own: it finds no module imported, no thread running and no variable set
that another measurement, or the person who runs this, left there.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

ROOT: Final = Path(__file__).resolve().parents[1]

_DROPPED: Final = (
    "PYTHON",
    "RAY_",
    "VLLM_",
    "VERL_",
    "OTEL_",
    "CUDA_",
    "MASTER_",
    "RANK",
    "WORLD_SIZE",
    "TORCHELASTIC",
)


class ChildError(RuntimeError):
    """A process that is measured ended, or didn't answer; the message holds the end of what it wrote."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change a measurement, and `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    loopback = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    return {**kept, **loopback, "OMP_NUM_THREADS": "1", **(more or {})}


class Child:
    """A side of a comparison: `python -m module arguments`, which calls `serve`. Use as a context manager."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: str = sys.executable,
        more: Mapping[str, str] | None = None,
        patience: float = 300.0,
    ) -> None:
        """`more`: of the environment. `patience`: seconds for any one answer."""
        self._what = " ".join((module, *arguments))
        self._patience = patience
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [python, "-m", module, *arguments],
            cwd=ROOT,
            env=environment(more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, what: str, **arguments: Any) -> Any:
        """Have the function `what` of the child called and return its result. Raises `ChildError`."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise ChildError(f"{self._what} has no pipes")
        watchdog = threading.Timer(self._patience, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps([what, arguments]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if not line:
            process.wait(10)
            raise ChildError(f"{self._what} didn't answer {what!r} (exit code {process.returncode}):\n{self._said()}")
        return json.loads(line)

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # it ends when its input does
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def serve(**functions: Callable[..., Any]) -> None:
    """In a child: answer each line `[name, arguments]` of the input with the function's result, until it ends.

    What else is written to the output goes to the errors.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answers.write(json.dumps(functions[name](**arguments)) + "\n")
        answers.flush()


def fresh(code: str, more: Mapping[str, str] | None = None) -> Any:
    """Run `code` in a new interpreter and return the JSON it prints last. Raises `ChildError`."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code], cwd=ROOT, env=environment(more), capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise ChildError(f"exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])
