"""Ascend NPUs by npu-exporter: what means the same as of a GPU has the same name and unit."""

import pytest

from bridged import of_metrics

parser = pytest.importorskip("prometheus_client.parser")
from verl_otel.bridges import npus  # noqa: E402

WHO = 'container_name="",id="{}",model_name="910B",vdie_id="DIE-{}"'
VALUES = {
    "utilization": (75.5, "hw.gpu.utilization", 0.755),
    "power": (150.5, "hw.power", 150.5),
    "temperature": (65, "hw.temperature", 65),
    "hbm_used_memory": (1024, "hw.gpu.memory.usage", 1 << 30),
    "hbm_total_memory": (65536, "hw.gpu.memory.limit", 64 << 30),
}


def page():
    """Two NPUs, the second unwell; samples have the time at which they were taken."""
    lines = []
    for name, (value, *_) in VALUES.items():
        lines.append(f"# TYPE npu_chip_info_{name} gauge")
        lines += [f"npu_chip_info_{name}{{{WHO.format(one, one)}}} {value} 1723621883587" for one in (0, 1)]
    lines.append("# TYPE npu_chip_info_health_status gauge")
    lines += [f"npu_chip_info_health_status{{{WHO.format(one, one)}}} {1 - one} 1723621883587" for one in (0, 1)]
    return "\n".join(lines) + "\n"


def test_figures_are_in_the_units_of_a_gpus():
    found = of_metrics(npus.as_hardware(parser.text_string_to_metric_families(page()), 1, 2))
    of = {(name, dict(labels)["hw.id"], dict(labels).get("hw.state")): value for (name, labels), value in found.items()}
    for _, name, value in VALUES.values():
        assert of[name, "DIE-1", None] == pytest.approx(value)
    assert (of["hw.status", "DIE-0", "ok"], of["hw.status", "DIE-1", "ok"]) == (1, 0)
    assert (of["hw.status", "DIE-0", "failed"], of["hw.status", "DIE-1", "failed"]) == (0, 1)
    assert {(dict(labels)["hw.name"], dict(labels)["hw.type"]) for _, labels in found} == {("910B", "gpu")}


def test_other_pages_have_no_npus():
    assert list(npus.as_hardware(parser.text_string_to_metric_families("# TYPE a gauge\na 1\n"), 1, 2)) == []
