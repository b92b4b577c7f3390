"""OTel's gen_ai metrics of a model call, which are about to be renamed.

By default the last published names (v1.41); with `gen_ai_latest_experimental` in OTEL_SEMCONV_STABILITY_OPT_IN those
that are to come; never both. Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/non-normative/migration.md.
"""

import os
from dataclasses import dataclass
from typing import Final

from verl_otel.semconv.metrics import METRICS, REQUEST_TIMES, TOKEN_COUNTS, MetricName

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST: Final = "gen_ai_latest_experimental"


@dataclass(frozen=True)
class ModelCallMetrics:
    """`input_tokens` and `output_tokens` may be one metric, told apart by `gen_ai.token.type`."""

    duration: MetricName
    input_tokens: MetricName
    output_tokens: MetricName


_USAGE: Final = MetricName("gen_ai.client.token.usage", "{token}", "Tokens of a model call, in and out.", TOKEN_COUNTS)

PUBLISHED: Final = ModelCallMetrics(
    MetricName(
        "gen_ai.client.operation.duration", "s", "Time of a model call, as the agent loop sees it.", REQUEST_TIMES
    ),
    _USAGE,
    _USAGE,
)
COMING: Final = ModelCallMetrics(
    MetricName(
        "gen_ai.client.inference.duration", "s", "Time of a model call, as the agent loop sees it.", REQUEST_TIMES
    ),
    MetricName("gen_ai.client.inference.operation.input_tokens", "{token}", "Tokens of a prompt.", TOKEN_COUNTS),
    MetricName("gen_ai.client.inference.operation.output_tokens", "{token}", "Tokens of an answer.", TOKEN_COUNTS),
)


METRICS.update(
    {one.name: one for set_ in (PUBLISHED, COMING) for one in (set_.duration, set_.input_tokens, set_.output_tokens)}
)


def model_call_metrics() -> ModelCallMetrics:
    """Those that the environment asks for."""
    asked = {one.strip() for one in os.environ.get(OPT_IN, "").split(",")}
    return COMING if LATEST in asked else PUBLISHED
