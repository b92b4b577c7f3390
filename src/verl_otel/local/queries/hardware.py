"""Is hardware the limit, and is it well?"""

from collections.abc import Iterable
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.alert_machines import is_held_down
from verl_otel.local.queries.evidence import HOST
from verl_otel.local.queries.metrics import growth, newest
from verl_otel.local.queries.panels import Counter, Gauge, Panel, Share, drawn, table
from verl_otel.local.queries.reading import Cursor, Row
from verl_otel.local.queries.windows import window
from verl_otel.semconv import hardware as names

_GPU: Final = (HOST, names.GPU_INDEX)
_NO_GPU: Final = "there are no GPUs, or NVML can't be read (pip install verl-otel[hardware])"
_NO_HOST: Final = "the host is not observed (pip install verl-otel[hardware])"
_NO_LIMIT: Final = "the container has no limit of its own"
_DIRECTION: Final = "direction"

PANELS: Final = (
    Panel(
        "gpu_utilization",
        "Do the GPUs work?",
        "Near 1 in updates; a kernel that runs says nothing of how much of the GPU it uses.",
        "1",
        (Gauge(names.GPU_UTILIZATION.name, _GPU, take="avg", low_is_bad=True),),
        _NO_GPU,
    ),
    Panel(
        "gpu_memory",
        "Is the GPUs' memory full?",
        "Below 0.95.",
        "1",
        (Gauge(names.GPU_MEMORY_UTILIZATION.name, _GPU),),
        _NO_GPU,
        0.95,
    ),
    Panel(
        "gpu_idle",
        "In which phase do the GPUs run nothing?",
        "Low in updates and in gen.",
        "1",
        (Gauge(semconv.GPU_IDLE.name, (semconv.PHASE,), take="avg"),),
        _NO_GPU,
    ),
    Panel(
        "gpu_power",
        "How much power do they draw?",
        "Near the limit in updates: that is a GPU that works.",
        "W",
        (Gauge(names.POWER.name, _GPU, take="avg", low_is_bad=True), Gauge(names.GPU_POWER_LIMIT.name, (), "limit")),
        _NO_GPU,
    ),
    Panel(
        "gpu_temperature",
        "Are they hot?",
        "Below 85.",
        "Cel",
        (Gauge(names.TEMPERATURE.name, _GPU),),
        _NO_GPU,
        85,
    ),
    Panel(
        "gpu_throttled",
        "Is a GPU held down?",
        "power_cap alone.",
        "{gpu}",
        (Gauge(names.GPU_THROTTLED.name, (HOST, names.GPU_THROTTLE_REASON), join="sum"),),
        _NO_GPU,
    ),
    Panel(
        "gpu_errors",
        "Did a GPU report errors?",
        "0 of uncorrected and Xid.",
        "{error}",
        (Counter(names.ERRORS.name, (HOST, names.ERROR), per_second=False),),
        _NO_GPU,
    ),
    Panel(
        "gpu_io",
        "How much goes over PCIe and NVLink?",
        "NVLink busy in collectives, PCIe in weight syncs and offloads.",
        "By/s",
        (Counter(names.GPU_IO.name, (HOST, names.GPU_LINK, names.IO_DIRECTION)),),
        _NO_GPU,
    ),
    Panel(
        "step_energy",
        "What energy does a step cost?",
        "Steady.",
        "J",
        (Gauge(semconv.STEP_ENERGY.name),),
        _NO_GPU,
    ),
    Panel(
        "host_memory",
        "Is the host's memory full?",
        "Below 0.9: at 0.95 Ray kills.",
        "1",
        (
            Gauge("system.memory.utilization", (HOST,), where={"state": "used"}),
            Share(
                Gauge(names.CONTAINER_MEMORY.name, (HOST,), "container"),
                Gauge(names.HOST_MEMORY_LIMIT.name, (HOST,), "container"),
            ),
        ),
        _NO_HOST,
        0.92,
    ),
    Panel(
        "host_cpu",
        "How many CPUs are in use?",
        "Below what there are.",
        "{cpu}",
        (
            Counter(names.SYSTEM_CPU.name, (HOST,), "user", {names.CPU_MODE: "user"}),
            Counter(names.SYSTEM_CPU.name, (HOST,), "system", {names.CPU_MODE: "system"}),
        ),
        _NO_HOST,
    ),
    Panel(
        "shared_memory",
        "Is shared memory full?",
        "Below its size.",
        "1",
        (
            Share(
                Gauge(names.HOST_SHM_USAGE.name, (HOST,), "shared memory"),
                Gauge(names.HOST_SHM_LIMIT.name, (HOST,), "shared memory"),
            ),
            Share(
                Gauge(names.OBJECT_STORE_USAGE.name, (HOST,), "object store"),
                Gauge(names.OBJECT_STORE_LIMIT.name, (HOST,), "object store"),
            ),
        ),
        _NO_LIMIT,
    ),
    Panel(
        "process_memory",
        "Does a process leak memory?",
        "Steady.",
        "By",
        (Gauge(names.PROCESS_MEMORY.name, (semconv.ROLE, semconv.RANK, semconv.REPLICA)),),
        _NO_HOST,
    ),
    Panel(
        "network",
        "How busy is the network?",
        "Busy in weight syncs.",
        "By/s",
        (Counter("system.network.io", (HOST, _DIRECTION)),),
        _NO_HOST,
    ),
    Panel(
        "disk",
        "How busy is the disk?",
        "Busy in checkpoints.",
        "By/s",
        (Counter("system.disk.io", (HOST, _DIRECTION)),),
        _NO_HOST,
    ),
)
_COLUMNS: Final = (
    "host",
    "GPU",
    "name",
    "state",
    "utilization",
    "memory",
    "power, W",
    "temperature, °C",
    "held down by",
    "errors",
)
_GPU_LIMIT: Final = 2048
_OK: Final = "ok"


def hardware(cursor: Cursor, begin: float | None = None, end: float | None = None, width: int = 1200) -> dict[str, Any]:
    """Panels between two times in ms, and the GPUs as they were last. Raises `ParameterError`."""
    cut = window(cursor, begin, end, width)
    return {"panels": drawn(cursor, PANELS, cut), "rows": [_gpus(cursor, cut.end)]}


_Key = tuple[str, str]


def _gpus(cursor: Cursor, at: int) -> dict[str, Any]:
    """The sick ones first."""
    value = {
        metric: {_gpu(one): one["value"] for one in newest(cursor, metric, at)}
        for metric in (
            names.GPU_UTILIZATION.name,
            names.GPU_MEMORY_UTILIZATION.name,
            names.POWER.name,
            names.TEMPERATURE.name,
        )
    }
    states = _last_words(newest(cursor, names.STATUS.name, at), names.HW_STATE)
    held = _last_words(newest(cursor, names.GPU_THROTTLED.name, at), names.GPU_THROTTLE_REASON)
    models = _last_words(newest(cursor, names.GPU_INFO.name, at), names.HW_NAME)
    errors: dict[_Key, float] = {}
    for (index, kind), count in growth(
        cursor, names.ERRORS.name, at, labels=(names.GPU_INDEX, names.ERROR), from_zero=False
    ).items():
        if kind != "corrected":
            errors["", index] = errors.get(("", index), 0.0) + count
    known = sorted({*value[names.GPU_UTILIZATION.name], *states, *models})[:_GPU_LIMIT]
    found: list[list[str | float | None]] = []
    for key in known:
        failures = errors.get(("", key[1]))
        state = _state(states.get(key), held.get(key, ""), failures)
        measured = (each.get(key) for each in value.values())
        found.append([*key, models.get(key), state, *measured, held.get(key), failures])
    found.sort(key=lambda one: one[3] in (None, _OK))
    return table("GPUs", _COLUMNS, found)


def _state(told: str | None, held: str, errors: float | None) -> str | None:
    """The worst that is known of it; None where nothing is."""
    if told == "failed":
        return "lost"
    if errors:
        return "errors"
    if any(is_held_down(reason) for reason in held.split(", ")):
        return "throttled"
    return told


def _gpu(one: Row) -> _Key:
    return str(one["host"] or ""), str(one["attributes"].get(names.GPU_INDEX, ""))


def _last_words(found: Iterable[Row], attribute: str) -> dict[_Key, str]:
    """Of gauges of 1: which values of the attribute are so now."""
    words: dict[_Key, list[str]] = {}
    for one in found:
        if one["value"] > 0 and attribute in one["attributes"]:
            words.setdefault(_gpu(one), []).append(str(one["attributes"][attribute]))
    return {key: ", ".join(sorted(set(each))) for key, each in words.items()}
