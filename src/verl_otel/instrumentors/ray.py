"""Ray, as far as verl uses it: patched when verl is imported, so that a Ray program without verl stays as it is."""

import sys
from types import ModuleType
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.neutrality import patch_randomness
from verl_otel.settings import peek

_NAME: Final = "verl_ray"


class RayInstrumentor(VerlInstrumentor):
    """Workers, context over calls, and the end of the run."""

    name = _NAME

    def _patch_more(self) -> None:
        patch_randomness(self.patches)
        if peek("role") == "worker":
            self._patch_ray()  # processes of verl's that never import it are reached too
        else:
            self.patches.when_imported("verl", self._start)

    def _start(self, _: ModuleType) -> None:
        from verl_otel.ray import reach

        reach.run_id()
        self.patches.when_imported("ray", lambda ray: reach.patch_init(self.patches, ray))
        self._patch_ray()
        with guard("starting the SDK"):
            runtime.current()

    def _patch_ray(self) -> None:
        self.patches.when_imported("ray.actor", self._patch_actors)
        self.patches.when_imported("ray.remote_function", self._patch_tasks)

    def _patch_actors(self, actor: Any) -> None:
        from verl_otel.ray import context, ending

        _pickle_by_value()
        context.patch_actors(self.patches, actor)
        ending.patch_actor_creation(self.patches, actor.ActorClass)

    def _patch_tasks(self, remote_function: Any) -> None:
        from verl_otel.ray import context

        context.patch_tasks(self.patches, remote_function)


def _pickle_by_value() -> None:
    from verl_otel.ray import carried

    sys.modules["ray"].cloudpickle.register_pickle_by_value(carried)
