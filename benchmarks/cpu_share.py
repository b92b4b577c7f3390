"""What our threads and wrappers take of the CPU time of a run's processes, read from outside while it goes on.

See `sides/real/sitecustomize.py` for how they are told apart.
"""

import contextlib
import importlib
import importlib.util
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

_HERE: Final = Path(__file__).resolve().parent / "sides" / "real"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of a process: all of it, our threads, our wrappers in other threads."""

    process: float = 0.0
    threads: float = 0.0
    wrappers: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.process + other.process, self.threads + other.threads, self.wrappers + other.wrappers)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.process - other.process, self.threads - other.threads, self.wrappers - other.wrappers)


class Meters:
    """Of one run: `environment` makes its processes tell, `look` reads them all."""

    def __init__(self, folder: Path) -> None:
        """`folder`: exists, and is empty. Raises `RuntimeError` if a function that is to be metered is gone."""
        self._folder = folder
        self._last: dict[int, Spent] = {}
        self._before: dict[int, Spent] = {}
        if missing := [name for name in _metered() if not _exists(*name)]:
            raise RuntimeError(f"sides/real/sitecustomize.py meters what isn't there: {missing}")

    @property
    def environment(self) -> dict[str, str]:
        """For the run."""
        return {"PYTHONPATH": str(_HERE), "BENCHMARK_METERS": str(self._folder)}

    def look(self, processes: Iterable[int]) -> None:
        """Read these processes; one that ended since keeps what was read last."""
        for process in processes:
            with contextlib.suppress(OSError, ValueError, IndexError):
                self._last[process] = self._read(process)

    def begin(self) -> None:
        """What was read last is the start of what is divided."""
        self._before = dict(self._last)

    def spent(self) -> Spent:
        """From the start to what was read last, all processes together."""
        return sum((last - self._before.get(process, Spent()) for process, last in self._last.items()), Spent())

    def _read(self, process: int) -> Spent:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        threads = 0
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().startswith("verl-otel-"):
                    threads += int((task / "schedstat").read_text().split()[0])
        wrappers = 0
        with contextlib.suppress(OSError, struct.error):
            (wrappers,) = struct.unpack("q", (self._folder / str(process)).read_bytes())
        # proc(5): user and system time are fields 14 and 15, counted from 1; two are cut off here.
        return Spent((int(fields[11]) + int(fields[12])) / _TICKS, threads / 1e9, wrappers / 1e9)


def _metered() -> tuple[tuple[str, str], ...]:
    specification = importlib.util.spec_from_file_location("metering", _HERE / "sitecustomize.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found: tuple[tuple[str, str], ...] = module.METERED
    return found


def _exists(module: str, path: str) -> bool:
    owner: object | None = importlib.import_module(module)
    assert isinstance(owner, ModuleType)
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner is not None
