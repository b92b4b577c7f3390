"""Our calls against those of rl-insight 0.3.0, verl's own telemetry, for the same step and the same span.

Both run in one process, in alternation, on a local Ray where its hub lives, as verl uses it. Measured is the wall time
of the calling thread; between batches each side's queue is drained, untimed. rl-insight is installed into a venv of its
own (once, in .work/rival), since it can't live beside the CPU kit's packages.
"""

import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.children import ROOT, Child, environment
from benchmarks.measuring import Row, compare
from benchmarks.sides.calls import KEYS
from benchmarks.telling import Tell

PAIRS: Final = 60

_RIVAL: Final = "rl-insight==0.3.0"
# As the CPU kit has them, so that both benchmarks measure us on the same SDK.
_SAME: Final = ("ray", "opentelemetry-sdk", "opentelemetry-exporter-otlp", "opentelemetry-instrumentation")


def python() -> Path:
    """The interpreter of the rival's venv, made now if it isn't there."""
    folder = ROOT / ".work" / "rival"
    interpreter, mark = folder / "bin" / "python", folder / "installed.txt"
    wanted = [_RIVAL, *(f"{name}=={version(name)}" for name in _SAME), "-e", str(ROOT)]
    if not mark.exists() or mark.read_text().split("\n") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True, env=environment(), stdout=sys.stderr)  # noqa: S603 - our own words
        mark.write_text("\n".join(wanted))
    return interpreter


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `rival`."""
    tell(0, PAIRS)
    interpreter = str(python())
    times: dict[str, list[float]] = {}
    with (
        Child("benchmarks.sides.sink") as sink,
        Child("benchmarks.sides.rival_server", python=interpreter) as server,
        Child("benchmarks.sides.rival", server.ask("endpoint"), sink.ask("endpoint"), python=interpreter) as child,
    ):
        names = ("log", "rival_log", "span", "rival_span")
        for number in range(PAIRS):
            tell(number, PAIRS)
            for name in names if number % 2 else reversed(names):
                times.setdefault(name, []).append(child.ask(name))
        child.ask("check")
    against = f"{_RIVAL.replace('==', ' ')}'s"
    yield compare("rival", f"Tracking.log of {KEYS} scalars / {against}", times["log"], times["rival_log"], budget=0.1)
    yield compare("rival", f"phase / {against} trace_state", times["span"], times["rival_span"], budget=0.4)
