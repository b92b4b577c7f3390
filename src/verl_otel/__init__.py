"""verl-otel: OpenTelemetry for verl, without an edited line.

    import verl_otel
    verl_otel.instrument()      # before or after `import verl`, and before `ray.init`

or `opentelemetry-instrument python -m verl.trainer.main_ppo ...`, or VERL_OTEL_ENABLED=true with verl >= 0.9.0.
"""

from typing import TYPE_CHECKING

from verl_otel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from verl_otel.telemetry.hooks import ScalarHook, SpanHook

__all__ = ["__version__", "flush", "instrument", "uninstrument"]


def instrument(
    *,
    run_id: str | None = None,
    headers_file: "str | PathLike[str] | None" = None,
    queue_mib: int | None = None,
    flush_timeout: float | None = None,
    max_keys: int | None = None,
    nested_worker_spans: bool | None = None,
    stuck_after: float | None = None,
    logs: bool | None = None,
    rollout_ratio: float | None = None,
    rollout_cap: int | None = None,
    token_mismatch: bool | None = None,
    log_figures: bool | None = None,
    scrape: "Sequence[str] | None" = None,
    span_hook: "SpanHook | str | None" = None,
    scalar_hook: "ScalarHook | str | None" = None,
) -> None:
    """Observe verl in this process and, through Ray, in every process of the run.

    Imports nothing of verl, Ray or torch; patches what is imported already, and the rest when it is. A second call does
    nothing. OTEL_SDK_DISABLED, VERL_OTEL_ENABLED=false and OTEL_PYTHON_DISABLED_INSTRUMENTATIONS are honoured.

    Each option sets its variable (`queue_mib` is VERL_OTEL_QUEUE_MIB), see docs/configuration.md; None leaves it.
    `span_hook(span, name)` is called with each span of ours when it starts; `scalar_hook(scalars, step)` with the
    scalars of each `Tracking.log` call by verl's keys, and what it returns is exported too. They travel to the workers
    as Ray's own functions do, or are named as `module:function`. What they raise is counted, and costs itself alone.

    Raises `ValueError` for an option that its variable wouldn't take.
    """
    from verl_otel import settings, waiting

    named = {"span_hook": span_hook, "scalar_hook": scalar_hook}
    settings.export(
        {
            "run_id": run_id,
            "headers_file": None if headers_file is None else str(headers_file),
            "queue_mib": queue_mib,
            "flush_timeout": flush_timeout,
            "max_keys": max_keys,
            "nested_worker_spans": nested_worker_spans,
            "stuck_after": stuck_after,
            "logs": logs,
            "rollout_ratio": rollout_ratio,
            "rollout_cap": rollout_cap,
            "token_mismatch": token_mismatch,
            "log_figures": log_figures,
            "scrape": scrape,
            **{name: hook for name, hook in named.items() if isinstance(hook, str)},
        }
    )
    if callable(span_hook) or callable(scalar_hook):
        from verl_otel.telemetry import hooks

        hooks.give(span_hook if callable(span_hook) else None, scalar_hook if callable(scalar_hook) else None)
    waiting.instrument()


def uninstrument() -> None:
    """Put back every attribute as it was, flush, and end delivery in this process. A second call does nothing."""
    from verl_otel import waiting

    waiting.uninstrument()


def flush(seconds: float | None = None) -> bool:
    """Send what this process has, within `seconds` (VERL_OTEL_FLUSH_TIMEOUT unless given); False if some is left."""
    from verl_otel import runtime
    from verl_otel.guard import guard

    with guard("flush"):
        return runtime.flush(seconds)
    return False
