"""Hardware: nothing of verl's is patched; every process of its run is ready to look after its node."""

from typing import Any

from verl_otel.hardware import node
from verl_otel.instrumentors.base import VerlInstrumentor


class HardwareInstrumentor(VerlInstrumentor):
    """GPUs, host and processes, and the endpoints that the user names."""

    name = "verl_hardware"

    def _patch_more(self, *, by_program: bool) -> None:
        if by_program:
            node.enable()
        else:
            self.patches.when_imported("verl", lambda _: node.enable())

    def _uninstrument(self, **kwargs: Any) -> None:
        super()._uninstrument(**kwargs)
        node.disable()
