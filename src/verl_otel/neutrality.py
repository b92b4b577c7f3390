"""Keeping the SDK out of the training's random numbers.

OpenTelemetry draws from Python's global `random`, which verl seeds: for ids, for exemplars, and for its exporters'
back-off. Each module that does is given a `SystemRandom`, which has no state and is safe after a fork (a private
`Random` repeats ids there). `tests/contract` finds every such module of the installed SDK and compares it with this
table.
"""

from random import SystemRandom
from types import ModuleType
from typing import Final

from verl_otel.patching import patches

_RANDOM: Final = SystemRandom()

DRAWS: Final = (
    ("opentelemetry.sdk.trace.id_generator", "random", _RANDOM),
    ("opentelemetry.sdk.metrics._internal.exemplar.exemplar_reservoir", "randrange", _RANDOM.randrange),
    ("opentelemetry.exporter.otlp.common.http", "random", _RANDOM),
    ("opentelemetry.exporter.otlp.proto.grpc.exporter", "random", _RANDOM),
    ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "random", _RANDOM),
    ("opentelemetry.exporter.otlp.proto.http.metric_exporter", "random", _RANDOM),
    ("opentelemetry.exporter.otlp.proto.http._log_exporter", "random", _RANDOM),
)
"""Module, attribute and what stands in its place; an SDK in which the module has no such attribute is left alone."""


def protect() -> None:
    """Replace each draw when its module is imported, whoever configured the SDK. A second call does nothing."""
    own = patches("verl_randomness")
    if own.active:
        return
    own.start()
    for module, name, replacement in DRAWS:

        def replace(imported: ModuleType, name: str = name, replacement: object = replacement) -> None:
            if name in vars(imported):
                own.replace(imported, name, replacement)

        own.when_imported(module, replace)


def release() -> None:
    """Put the draws back."""
    patches("verl_randomness").undo()
