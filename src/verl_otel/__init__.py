"""verl-otel: OpenTelemetry for verl, without an edited line.

    import verl_otel
    verl_otel.instrument()      # before or after `import verl`, and before `ray.init`

or `opentelemetry-instrument python -m verl.trainer.main_ppo ...`, or VERL_OTEL_ENABLED=true with verl >= 0.9.0.
"""

from verl_otel.version import __version__

__all__ = ["__version__", "flush", "instrument", "uninstrument"]


def instrument() -> None:
    """Observe verl in this process and, through Ray, in every process of the run.

    Imports nothing of verl, Ray or torch; patches what is imported already, and the rest when it is. A second call does
    nothing. OTEL_SDK_DISABLED, VERL_OTEL_ENABLED=false and OTEL_PYTHON_DISABLED_INSTRUMENTATIONS are honoured.
    """
    from verl_otel import door

    door.instrument()


def uninstrument() -> None:
    """Put back every attribute as it was, flush, and end delivery in this process. A second call does nothing."""
    from verl_otel import door

    door.uninstrument()


def flush(seconds: float | None = None) -> bool:
    """Send what this process has, within `seconds` (VERL_OTEL_FLUSH_TIMEOUT unless given); False if some is left."""
    from verl_otel import runtime

    return runtime.flush(seconds)
