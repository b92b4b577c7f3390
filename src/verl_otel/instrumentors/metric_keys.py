"""verl's metric keys as metric names: families that verl writes into keys become attributes, and units are named.

The tables hold what verl 0.7 to 0.9 logs. A key they don't know keeps its own name, without a unit: nothing is guessed.
"""

import re
from typing import Final

from verl_otel import semconv
from verl_otel.telemetry.scalars import MAX_NAME, ScalarName, plain

_STATISTICS: Final = ("mean", "max", "min", "std")

_TOKENS: Final = "{token}"
_UNITS: Final = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        # Fractions first: `response_length/clip_ratio` is no length.
        (r".*/clip_ratio$|.*aborted_ratio$|.*clipfrac(_lower)?$|^perf/mfu/.*", "1"),
        (r".*masked_fraction$|.*fraction_(high|low)$|.*ratio_fraction_.*|.*oob_ratio$|.*idle_ratio$", "1"),
        (r"^train/mfu$|^fully_async/partial/partial_ratio$", "1"),
        (r"^dynamic_resource/.*utilization$|^rollout/spec_accept_rate$|^checkpoint_engine/changed_ratio$", "1"),
        (r"^(response_length|response_length_non_aborted|prompt_length|global_seqlen)(/.*)?$", _TOKENS),
        (r"^perf/total_num_tokens$|^train/(global|total)_tokens$|^rollout/spec_accept_length$", _TOKENS),
        (r"^perf/throughput$", "{token}/s"),
        (r"^perf/time_per_step$|^fully_async/total_wait_time$|^fully_async/processing_time/.*", "s"),
        (r"^rollouter/validate_time$|^fully_async/rollouter/(active|version)_time$", "s"),
        (
            r"^actor/(entropy|ppo_kl|kl_loss|reward_kl_penalty)$|^rollout_corr/(kl|k3_kl)$|^actor/rollout_corr/(kl|k3_kl)$",
            "{nat}",
        ),
    )
)

# Legacy verl files what its agent loop measured below `timing_s/`; these are no seconds.
_AGENT_LOOP_COUNTS: Final = {
    "num_preempted": "{preemption}",
    "slowest/num_preempted": "{preemption}",
    "slowest/prompt_length": _TOKENS,
    "slowest/response_length": _TOKENS,
}

_SUFFIXES: Final = (
    ("_gb", "", "By", 1024.0**3),
    ("_mbytes", "", "By", 1024.0**2),
    ("_time_s", "_time", "s", 1.0),
    ("_seconds", "", "s", 1.0),
    ("_tokens(B)", "_tokens", _TOKENS, 1e9),
)
"""Units that verl writes at a key's end, what is left of them, unit and scale.

Its `gb` is GiB (profiler/performance.py), its `mbytes` MiB."""

_VALIDATION: Final = re.compile(
    r"^(?P<part>val-core|val-aux)/(?P<source>.+)/(?P<variable>[^/]+)"
    r"/(?P<statistic>(?:mean|std)@\d+|(?:best|worst|maj)@\d+/(?:mean|std))$"
)


def describe(key: str) -> ScalarName:
    """Name, unit, attributes and scale for a key of `Tracking.log`."""
    found = _timing(key) or _validation(key) or _named(key)
    name = found.name[:MAX_NAME]
    if any(name == reserved or name.startswith(reserved + ".") for reserved in semconv.RESERVED):
        return ScalarName(f"{semconv.SCALAR_KEPT_APART}{plain(key)}"[:MAX_NAME])
    return ScalarName(name, found.unit, found.attributes, found.scale)


def _timing(key: str) -> ScalarName | None:
    if key.startswith("timing_per_token_ms/"):
        return ScalarName(
            semconv.SCALAR_TIMING_PER_TOKEN, "s", ((semconv.PHASE, key.removeprefix("timing_per_token_ms/")),), 1e-3
        )
    if not key.startswith("timing_s/"):
        return None
    phase = key.removeprefix("timing_s/")
    if phase.startswith("agent_loop/"):
        base, statistic = _split_statistic(phase.removeprefix("agent_loop/"))
        attributes = ((semconv.STATISTIC, statistic),) if statistic else ()
        if base in _AGENT_LOOP_COUNTS:
            return ScalarName(semconv.SCALAR_AGENT_LOOP + plain(base), _AGENT_LOOP_COUNTS[base], attributes)
        return ScalarName(semconv.SCALAR_TIMING, "s", ((semconv.PHASE, f"agent_loop/{base}"), *attributes))
    if phase == "generation_timing/topk_ratio":
        return ScalarName(semconv.SCALAR + plain(phase), "1")
    return ScalarName(semconv.SCALAR_TIMING, "s", ((semconv.PHASE, phase),))


def _validation(key: str) -> ScalarName | None:
    if (match := _VALIDATION.match(key)) is None:
        return None
    attributes = (
        (semconv.DATA_SOURCE, match["source"]),
        (semconv.VARIABLE, match["variable"]),
        (semconv.STATISTIC, match["statistic"]),
    )
    return ScalarName(semconv.SCALAR + plain(match["part"]), "", attributes)


def _named(key: str) -> ScalarName:
    unit = next((unit for pattern, unit in _UNITS if pattern.match(key)), "")
    base, statistic = _split_statistic(key)
    attributes = ((semconv.STATISTIC, statistic),) if statistic else ()
    for suffix, left, known, scale in _SUFFIXES:
        if base.endswith(suffix):
            return ScalarName(semconv.SCALAR + plain(base.removesuffix(suffix) + left), known, attributes, scale)
    return ScalarName(semconv.SCALAR + plain(base), unit, attributes)


def _split_statistic(key: str) -> tuple[str, str]:
    base, _, last = key.rpartition("/")
    return (base, last) if base and last in _STATISTICS else (key, "")
