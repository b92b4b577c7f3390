"""NVIDIA's management library through its Python binding: what each GPU says now, as plain values.

Any call may be refused (an older GPU, a virtual one, a container's rights) or fail (a GPU that fell off the bus, a
driver that went away). What isn't there is None; only a driver that is gone is the caller's to hear of.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from verl_otel.importing import importing

_Value = TypeVar("_Value")

PERMANENT: Final = ("NVMLError_NotSupported", "NVMLError_FunctionNotFound", "NVMLError_NoPermission")
"""Refusals that last."""
GONE: Final = ("NVMLError_Uninitialized", "NVMLError_DriverNotLoaded", "NVMLError_LibraryNotFound")
"""There is no driver, or none any more."""

_REASONS: Final = {
    "SwPowerCap": "power_cap",
    "HwSlowdown": "hardware",
    "HwThermalSlowdown": "hardware_thermal",
    "SwThermalSlowdown": "thermal",
    "HwPowerBrakeSlowdown": "power_brake",
    "SyncBoost": "sync_boost",
}
"""The library's bits for clocks that are held down; being idle and a user's own setting are no throttling."""
_VIOLATIONS: Final = {
    "POWER": "power_cap",
    "THERMAL": "thermal",
    "BOARD_LIMIT": "board_limit",
    "RELIABILITY": "reliability",
}
_LINKS: Final = {
    ("pcie", "transmit"): ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", 1),
    ("pcie", "receive"): ("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", 1),
    ("nvlink", "transmit"): ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", 1024),
    ("nvlink", "receive"): ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", 1024),
}
"""Fields that count bytes, or KiB, since the driver was loaded."""
_ALL_LINKS: Final = 0xFFFFFFFF
XID: Final = 8
"""`nvmlEventTypeXidCriticalError`."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG device within one (`parent`). Bytes, watts, joules, hertz, seconds; shares from 0 to 1.

    `lost`: it doesn't answer, though the driver counts it. `clocks` and the like: by kind.
    """

    uuid: str
    index: int
    name: str | None = None
    parent: str | None = None
    lost: bool = False
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    energy: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clocks: Mapping[str, float] = field(default_factory=dict)
    throttled: Mapping[str, bool] = field(default_factory=dict)
    throttle_time: Mapping[str, float] = field(default_factory=dict)
    ecc: Mapping[str, int] = field(default_factory=dict)
    io: Mapping[tuple[str, str], int] = field(default_factory=dict)
    processes: Mapping[int, int | None] = field(default_factory=dict)
    xids: Mapping[int, int] = field(default_factory=dict)


class Nvml:
    """The library, opened at the first reading and again after the driver was gone."""

    def __init__(self) -> None:
        self.driver: str | None = None
        self.openings = 0
        """How often it was opened; counters may begin anew."""
        self._library: Any = None
        self._refused: set[tuple[str, str]] = set()
        self._xids: dict[str, Counter[int]] = {}
        self._events: Any = None
        self._uuids: dict[int, str] = {}

    def read(self) -> list[Gpu]:
        """Every GPU that this container sees. Raises what the binding does if there is no driver, or none any more."""
        if self._library is None:
            self._open()
        try:
            found = [gpu for index in range(self._library.nvmlDeviceGetCount()) for gpu in self._read(index)]
        except Exception as error:
            if type(error).__name__ in GONE:
                self.close()
            raise
        return found

    def sample(self, wanted: Collection[str] | None) -> dict[str, tuple[float | None, float | None]]:
        """(utilization, energy in J) by UUID, of the GPUs that are named by index or UUID; None for all."""
        if self._library is None:
            self._open()
        found = {}
        for index in range(self._library.nvmlDeviceGetCount()):
            handle = self._library.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(self._library.nvmlDeviceGetUUID(handle))
            if wanted is None or str(index) in wanted or uuid in wanted:
                ask = _Asking(self._library, handle, uuid, self._refused)
                utilization, energy = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetTotalEnergyConsumption")
                found[uuid] = _scaled(getattr(utilization, "gpu", None), 0.01), _scaled(energy, 0.001)
        return found

    def close(self) -> None:
        """Let go of the library."""
        library, events = self._library, self._events
        self._library = self._events = None
        if library is not None:
            if events is not None:
                _quietly(library.nvmlEventSetFree, events)
            _quietly(library.nvmlShutdown)

    def _open(self) -> None:
        with importing():
            import pynvml

        self.openings += 1
        pynvml.nvmlInit()
        self._library = pynvml
        self._refused.clear()
        driver = _quietly(pynvml.nvmlSystemGetDriverVersion)
        self.driver = None if driver is None else _text(driver)
        self._uuids = {}
        self._events = _quietly(pynvml.nvmlEventSetCreate)

    def _read(self, index: int) -> Iterator[Gpu]:
        """A GPU and its parts; one that fell off the bus must not cost the others their reading."""
        library = self._library
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(library.nvmlDeviceGetUUID(handle))
        except library.NVMLError as error:
            if type(error).__name__ in GONE:
                raise
            yield Gpu(self._uuids.get(index, f"unknown-{index}"), index, lost=True)
            return
        if index not in self._uuids:
            self._uuids[index] = uuid
            self._listen(handle)
        self._take_xids()
        ask = _Asking(library, handle, uuid, self._refused)
        name = ask("nvmlDeviceGetName")
        utilization, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
        yield Gpu(
            uuid=uuid,
            index=index,
            name=None if name is None else _text(name),
            utilization=_scaled(getattr(utilization, "gpu", None), 0.01),
            memory_used=getattr(memory, "used", None),
            memory_total=getattr(memory, "total", None),
            energy=_scaled(ask("nvmlDeviceGetTotalEnergyConsumption"), 0.001),
            power=_scaled(ask("nvmlDeviceGetPowerUsage"), 0.001),
            power_limit=_scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 0.001),
            temperature=ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU),
            clocks=ask.each({"sm": library.NVML_CLOCK_SM, "memory": library.NVML_CLOCK_MEM}, _clock),
            throttled=ask.throttled(),
            throttle_time=ask.each(_constants(library, "NVML_PERF_POLICY_", _VIOLATIONS), _violation),
            ecc=ask.each(
                {
                    "corrected": library.NVML_MEMORY_ERROR_TYPE_CORRECTED,
                    "uncorrected": library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                },
                _ecc,
            ),
            io=ask.io(),
            processes={one.pid: one.usedGpuMemory for one in ask("nvmlDeviceGetComputeRunningProcesses") or ()},
            xids=dict(self._xids.get(uuid, {})),
        )
        yield from self._read_parts(handle, uuid, index)

    def _read_parts(self, handle: Any, parent: str, index: int) -> Iterator[Gpu]:
        """MIG devices, each with a memory of its own."""
        library = self._library
        ask = _Asking(library, handle, parent, self._refused)
        mode = ask("nvmlDeviceGetMigMode")
        if not mode or not mode[0]:
            return
        for number in range(ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            part = _quietly(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if part is not None:
                uuid = _text(library.nvmlDeviceGetUUID(part))
                asking = _Asking(library, part, uuid, self._refused)
                memory, name = asking("nvmlDeviceGetMemoryInfo"), asking("nvmlDeviceGetName")
                yield Gpu(
                    uuid=uuid,
                    index=index,
                    name=None if name is None else _text(name),
                    parent=parent,
                    memory_used=getattr(memory, "used", None),
                    memory_total=getattr(memory, "total", None),
                    processes={
                        one.pid: one.usedGpuMemory for one in asking("nvmlDeviceGetComputeRunningProcesses") or ()
                    },
                )

    def _listen(self, handle: Any) -> None:
        if self._events is not None:
            _quietly(self._library.nvmlDeviceRegisterEvents, handle, XID, self._events)

    def _take_xids(self) -> None:
        while self._events is not None:
            found = _quietly(self._library.nvmlEventSetWait_v2, self._events, 0)
            if found is None:
                return
            uuid = _quietly(self._library.nvmlDeviceGetUUID, found.device)
            if uuid is not None:
                self._xids.setdefault(_text(uuid), Counter())[int(found.eventData)] += 1


class _Asking:
    """Questions to one device; what it refuses for good isn't asked again."""

    def __init__(self, library: Any, handle: Any, uuid: str, refused: set[tuple[str, str]]) -> None:
        self._library, self._handle, self._uuid, self._refused = library, handle, uuid, refused

    def __call__(self, name: str, *arguments: Any) -> Any:
        """The answer; None if there is none. Raises if the driver is gone."""
        if (self._uuid, name) in self._refused:
            return None
        try:
            return getattr(self._library, name)(self._handle, *arguments)
        except (AttributeError, self._library.NVMLError) as error:
            kind = type(error).__name__
            if kind in GONE:
                raise
            if kind in PERMANENT or isinstance(error, AttributeError):
                self._refused.add((self._uuid, name))
            return None

    def each(self, kinds: Mapping[str, int], ask: "Callable[[_Asking, int], _Value | None]") -> dict[str, _Value]:
        """The answer for each kind that has one."""
        found = {name: ask(self, kind) for name, kind in kinds.items()}
        return {name: value for name, value in found.items() if value is not None}

    def throttled(self) -> dict[str, bool]:
        """Which reasons hold the clocks down; none if it doesn't say."""
        reasons = self("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self("nvmlDeviceGetCurrentClocksThrottleReasons")
        bits = _constants(self._library, "nvmlClocksThrottleReason", _REASONS)
        return {} if reasons is None else {name: bool(reasons & bit) for name, bit in bits.items()}

    def io(self) -> dict[tuple[str, str], int]:
        """Bytes by link and direction."""
        fields = {key: (getattr(self._library, name, None), unit) for key, (name, unit) in _LINKS.items()}
        known = {key: one for key, one in fields.items() if one[0] is not None}
        asked = [(number, _ALL_LINKS) if key[0] == "nvlink" else number for key, (number, _) in known.items()]
        answers = self("nvmlDeviceGetFieldValues", asked) or ()
        return {
            key: int(answer.value.ullVal) * unit
            for (key, (_, unit)), answer in zip(known.items(), answers, strict=False)
            if answer.nvmlReturn == 0
        }


def _clock(ask: _Asking, kind: int) -> float | None:
    return _scaled(ask("nvmlDeviceGetClockInfo", kind), 1e6)


def _violation(ask: _Asking, kind: int) -> float | None:
    return _scaled(getattr(ask("nvmlDeviceGetViolationStatus", kind), "violationTime", None), 1e-9)


def _ecc(ask: _Asking, kind: int) -> int | None:
    found = ask("nvmlDeviceGetTotalEccErrors", kind, 0)  # since the driver was loaded
    return None if found is None else int(found)


def _constants(library: Any, prefix: str, names: Mapping[str, str]) -> dict[str, int]:
    found = {known_as: getattr(library, prefix + name, None) for name, known_as in names.items()}
    return {known_as: value for known_as, value in found.items() if value is not None}


def _quietly(call: Callable[..., _Value], *arguments: Any) -> _Value | None:
    try:
        return call(*arguments)
    except Exception:  # noqa: BLE001 - whatever it refuses is optional
        return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
