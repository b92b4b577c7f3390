"""Every name of ours: spans, events, attributes, metrics with unit and buckets. No other package spells one.

Names follow OpenTelemetry's rules (dotted lower case, UCUM units, no unit in a name). Where a published convention has
a name, it is taken (`gen_ai.*`, `service.*`, `host.*`, `otel.sdk.*`); the rest is `verl.*`.
"""

from typing import Final

from opentelemetry.semconv.schemas import Schemas

from verl_otel.semconv import gen_ai as gen_ai
from verl_otel.semconv import hardware as hardware
from verl_otel.semconv.attributes import *
from verl_otel.semconv.metrics import *
from verl_otel.semconv.spans import *

SCHEMA_URL: Final = Schemas.V1_30_0.value
SCOPE: Final = "verl_otel"
