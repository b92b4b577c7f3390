"""Ascend NPUs, from npu-exporter's page, under the names that GPUs have, where they mean the same.

Units of its page, by Huawei's description of the NPU-Exporter metrics API (MindX DL, dlug_guide_03_000112): percent,
watts, degrees Celsius, MiB; health is 1 or 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics.export import Metric

from verl_otel.delivery.points import gauge, level
from verl_otel.semconv import MetricName
from verl_otel.semconv import hardware as names

_MIB: Final = 1 << 20
_NOW: Final[Mapping[str, tuple[MetricName, float]]] = {
    "npu_chip_info_utilization": (names.GPU_UTILIZATION, 0.01),
    "npu_chip_info_power": (names.POWER, 1),
    "npu_chip_info_temperature": (names.TEMPERATURE, 1),
}
_MEMORY: Final[Mapping[str, tuple[MetricName, float]]] = {
    "npu_chip_info_hbm_used_memory": (names.GPU_MEMORY_USAGE, _MIB),
    "npu_chip_info_hbm_total_memory": (names.GPU_MEMORY_LIMIT, _MIB),
}
_HEALTH: Final = "npu_chip_info_health_status"


def as_hardware(families: Iterable[Any], since: int, time: int) -> Iterator[Metric]:
    """`hw.*` of the NPUs on a page, as of `time`, read `since` then (ns since the epoch); nothing of any other page."""
    for family in families:
        if family.name in _NOW:
            metric, scale = _NOW[family.name]
            yield gauge(metric, [(_who(one), one.value * scale) for one in family.samples], time)
        elif family.name in _MEMORY:
            metric, scale = _MEMORY[family.name]
            yield level(metric, [(_who(one), one.value * scale) for one in family.samples], since, time)
        elif family.name == _HEALTH:
            states = [
                ({**_who(one), names.HW_STATE: state}, float((one.value == 1) == (state == "ok")))
                for one in family.samples
                for state in ("ok", "failed")
            ]
            yield level(names.STATUS, states, since, time)


def _who(sample: Any) -> dict[str, Any]:
    labels = sample.labels
    number = labels.get("id", "")
    found: dict[str, Any] = {
        names.HW_ID: labels.get("vdie_id") or number,
        names.HW_TYPE: names.GPU,
        names.HW_VENDOR: "Huawei",
    }
    if labels.get("model_name"):
        found[names.HW_NAME] = labels["model_name"]
    return {**found, names.GPU_INDEX: int(number)} if number.isdigit() else found
