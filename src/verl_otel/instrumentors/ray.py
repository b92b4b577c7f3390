"""Ray, as far as verl uses it.

Under `opentelemetry-instrument` it is patched when verl is imported, so that a Ray program without verl stays as it is;
`instrument()` says that verl will come, and acts at once.
"""

from types import ModuleType
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.ray import context, ending, reach
from verl_otel.settings import peek

_NAME: Final = "verl_ray"


class RayInstrumentor(VerlInstrumentor):
    """Workers, context over calls, and the end of the run."""

    name = _NAME

    def _patch_more(self, *, by_program: bool) -> None:
        if peek("role") == "worker":
            self._patch_ray()  # processes of verl's that never import it are reached too
            if reach.in_ray_worker():
                self.patches.when_imported("verl", _start_sdk)
            return
        if by_program:
            self._patch_driver()
        else:
            self.patches.when_imported("verl", lambda _: self._patch_driver())
        self.patches.when_imported("verl", _start_sdk)

    def _patch_driver(self) -> None:
        reach.run_id()
        self.patches.when_imported("ray", lambda ray: reach.patch_init(self.patches, ray))
        self._patch_ray()

    def _patch_ray(self) -> None:
        self.patches.when_imported("ray.actor", self._patch_actors)
        self.patches.when_imported("ray.remote_function", self._patch_tasks)

    def _patch_actors(self, actor: Any) -> None:
        reach.pickle_by_value()
        context.patch_actors(self.patches, actor)
        ending.patch_actor_creation(self.patches, actor.ActorClass)

    def _patch_tasks(self, remote_function: Any) -> None:
        context.patch_tasks(self.patches, remote_function)


def _start_sdk(_: ModuleType) -> None:
    with guard("starting the SDK"):
        runtime.current()
