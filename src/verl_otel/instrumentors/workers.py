"""Workers: a span for each registered method on each rank.

The registered methods (they carry verl's MAGIC_ATTR) are wrapped on their class. `register` and `DistProfiler.annotate`
act when a class is defined and can't be undone, so they are left alone; what they annotate is registered too.
"""

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor, observed
from verl_otel.patching import Wrapper, patches
from verl_otel.ray.carried import CARRIES
from verl_otel.telemetry import workers
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.workers import WorkerCall

_NAME: Final = "verl_workers"
_MAGIC: Final = "attrs_3141562937"
"""`verl.single_controller.base.decorator.MAGIC_ATTR`; spelled out, since reading it would import verl."""

_MODULES: Final = (
    "verl.workers.engine_workers",
    "verl.workers.fsdp_workers",
    "verl.workers.megatron_workers",
    "verl.checkpoint_engine.base",
)
"""Modules whose classes are wrapped at import: Ray may keep their methods before a worker is made."""

_CONTROLLER: Final = "verl.single_controller."
"""Its classes (WorkerDict, FusedWorker, Worker) only pass calls on, or answer the controller's own questions."""

_MARK: Final = "__verl_otel_worker__"


def read_role(worker: Any) -> str:
    """The worker's role; the class's name where it says none."""
    role = getattr(worker, "role", None)
    if isinstance(role, str) and role:
        return role
    if getattr(getattr(worker, "config", None), "model_type", None) == "value_model":
        return "critic"
    return type(worker).__name__


def read_rank(worker: Any) -> int:
    """The rank within its role; -1 where it has none."""
    rank = getattr(worker, "_rank", None)
    return int(rank) if rank is not None else -1


def wrap_method(name: str) -> Wrapper:
    """Observe the registered method `name`."""

    def start_call(worker: Any, *_: Any, **__: Any) -> Recording | None:
        return workers.start(WorkerCall(read_role(worker), read_rank(worker), name))

    observe = observed(patches(_NAME), start_call)

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        wrapped = observe(original)
        setattr(wrapped, _MARK, True)
        return wrapped

    return wrapper


def wrap_worker_init(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap the methods of whatever class a worker is of, a user's own too, when the first one is made."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if patches(_NAME).active:
            with guard("wrapping a worker class"):
                for base in type(self).__mro__:
                    wrap_class(base)
        original(self, *args, **kwargs)

    return init


def wrap_class(cls: type) -> None:
    """Wrap the registered methods that the class itself defines, but for those wrapped already."""
    if not cls.__module__.startswith(_CONTROLLER):
        for name, method in _registered(cls):
            if not getattr(method, _MARK, False):
                patches(_NAME).wrap(cls, name, wrap_method(name))


def _registered(cls: type) -> Iterator[tuple[str, Any]]:
    for name, found in list(vars(cls).items()):
        # What Ray made of a class enters the carried context; a span around that would not be in it.
        entering = getattr(found, CARRIES, False)
        if callable(found) and hasattr(found, _MAGIC) and not name.startswith("_") and not entering:
            yield name, found


class WorkersInstrumentor(VerlInstrumentor):
    """Worker spans, from the registered methods of every worker class."""

    name = _NAME
    targets = (Target("verl.single_controller.base.worker", "Worker.__init__", wrap_worker_init),)

    def _patch_more(self, *, by_program: bool) -> None:
        for module in _MODULES:
            self.patches.when_imported(module, _wrap_classes)


def _wrap_classes(module: ModuleType) -> None:
    for found in list(vars(module).values()):
        if isinstance(found, type) and found.__module__ == module.__name__:
            wrap_class(found)
