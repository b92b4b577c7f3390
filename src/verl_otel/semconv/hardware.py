"""Names of what GPUs, hosts and processes do: OTel's where it has one, else ours.

`hw.*` by https://opentelemetry.io/docs/specs/semconv/hardware/gpu/ (spelled out where OTel's oldest package that we run
with has no constant), fractions from 0 to 1; what it lacks is `verl.gpu.*`, and of a container's limits `verl.host.*`.
"""

from typing import Final

from opentelemetry.semconv._incubating.attributes import hw_attributes, network_attributes, process_attributes
from opentelemetry.semconv._incubating.metrics import container_metrics, hw_metrics, process_metrics
from opentelemetry.semconv.attributes import error_attributes

from verl_otel.semconv.attributes import ATTRIBUTES, Attribute
from verl_otel.semconv.metrics import METRICS, MetricName

GPU: Final = "gpu"
"""Value of `hw.type`."""

HW_ID: Final = hw_attributes.HW_ID
HW_NAME: Final = hw_attributes.HW_NAME
HW_PARENT: Final = hw_attributes.HW_PARENT
HW_TYPE: Final = hw_attributes.HW_TYPE
HW_STATE: Final = hw_attributes.HW_STATE
HW_VENDOR: Final = "hw.vendor"
HW_DRIVER: Final = "hw.driver_version"
ERROR: Final = error_attributes.ERROR_TYPE
IO_DIRECTION: Final = network_attributes.NETWORK_IO_DIRECTION
PROCESS_PID: Final = process_attributes.PROCESS_PID
GPU_INDEX: Final = "verl.gpu.index"
GPU_LINK: Final = "verl.gpu.link"
GPU_CLOCK: Final = "verl.gpu.clock"
GPU_THROTTLE_REASON: Final = "verl.gpu.throttle.reason"
CPU_MODE: Final = "cpu.mode"
OOM_KILLS: Final = "verl.host.oom_kills"

ATTRIBUTES.update(
    {
        HW_ID: Attribute(str, "The GPU's UUID, or that of a MIG device."),
        HW_NAME: Attribute(str, "The GPU's product name."),
        HW_PARENT: Attribute(str, "UUID of the GPU that a MIG device is part of."),
        HW_TYPE: Attribute(str, "gpu."),
        HW_STATE: Attribute(str, "ok, or failed: the driver counts it, but it doesn't answer."),
        HW_VENDOR: Attribute(str, "NVIDIA."),
        HW_DRIVER: Attribute(str, "Version of the GPU's driver."),
        IO_DIRECTION: Attribute(str, "receive or transmit, as the GPU sees it."),
        PROCESS_PID: Attribute(int, "The process on the GPU, as the driver counts it."),
        GPU_INDEX: Attribute(int, "The GPU's number, as the driver counts those that this container sees."),
        GPU_LINK: Attribute(str, "pcie or nvlink."),
        GPU_CLOCK: Attribute(str, "sm or memory."),
        GPU_THROTTLE_REASON: Attribute(str, "Why the clocks are lower than they could be."),
        CPU_MODE: Attribute(str, "user, system, idle or iowait."),
        OOM_KILLS: Attribute(int, "Processes that were killed since the last look."),
    }
)

GPU_UTILIZATION: Final = MetricName(
    "hw.gpu.utilization", "1", "Share of the driver's last sample period in which a kernel ran."
)
GPU_MEMORY_USAGE: Final = MetricName("hw.gpu.memory.usage", "By", "Memory of the GPU in use.")
GPU_MEMORY_LIMIT: Final = MetricName("hw.gpu.memory.limit", "By", "Memory that the GPU has.")
GPU_MEMORY_UTILIZATION: Final = MetricName("hw.gpu.memory.utilization", "1", "Share of the GPU's memory in use.")
GPU_IO: Final = MetricName("hw.gpu.io", "By", "Bytes over PCIe and NVLink.")
ENERGY: Final = MetricName(hw_metrics.HW_ENERGY, "J", "Energy used since the driver was loaded.")
POWER: Final = MetricName(hw_metrics.HW_POWER, "W", "Power drawn now.")
TEMPERATURE: Final = MetricName("hw.temperature", "Cel", "Temperature of the chip.")
ERRORS: Final = MetricName(
    hw_metrics.HW_ERRORS,
    "{error}",
    "ECC errors since the driver was loaded (corrected, uncorrected), and Xid errors seen (xid_<number>).",
)
STATUS: Final = MetricName(hw_metrics.HW_STATUS, "1", "1 for the state that the GPU is in, 0 for the other.")
GPU_INFO: Final = MetricName("verl.gpu.info", "", "Always 1; says what this GPU is.")
GPU_POWER_LIMIT: Final = MetricName("verl.gpu.power.limit", "W", "Power that the GPU may draw.")
GPU_CLOCK_FREQUENCY: Final = MetricName("verl.gpu.clock.frequency", "Hz", "Clock of the processors, and of the memory.")
GPU_THROTTLED: Final = MetricName(
    "verl.gpu.throttled", "", "1 while a reason holds the clocks down, 0 once it no longer does."
)
GPU_THROTTLE_TIME: Final = MetricName(
    "verl.gpu.throttle.time", "s", "Time for which a reason held the clocks down, since the driver was loaded."
)
GPU_PROCESS_MEMORY: Final = MetricName("verl.gpu.process.memory.usage", "By", "Memory of the GPU that a process uses.")

SYSTEM_CPU: Final = MetricName("system.cpu.time", "s", "CPU time of the host, of all CPUs together, by mode.")
PROCESS_MEMORY: Final = MetricName(process_metrics.PROCESS_MEMORY_USAGE, "By", "Physical memory of the process.")
PROCESS_CPU: Final = MetricName(process_metrics.PROCESS_CPU_TIME, "s", "CPU time of the process.")
PROCESS_THREADS: Final = MetricName(process_metrics.PROCESS_THREAD_COUNT, "{thread}", "Threads of the process.")

CONTAINER_MEMORY: Final = MetricName(
    container_metrics.CONTAINER_MEMORY_USAGE, "By", "Memory that counts against the container's limit."
)
HOST_MEMORY_LIMIT: Final = MetricName("verl.host.memory.limit", "By", "Memory that the container may use.")
HOST_CPU_LIMIT: Final = MetricName("verl.host.cpu.limit", "{cpu}", "CPUs that the container may use.")
HOST_SHM_USAGE: Final = MetricName("verl.host.shm.usage", "By", "Used of /dev/shm, where Ray keeps its object store.")
HOST_SHM_LIMIT: Final = MetricName("verl.host.shm.limit", "By", "Size of /dev/shm.")
OBJECT_STORE_USAGE: Final = MetricName("verl.host.object_store.usage", "By", "Used of Ray's object store on this node.")
OBJECT_STORE_LIMIT: Final = MetricName("verl.host.object_store.limit", "By", "Size of Ray's object store on this node.")
HOST_OOM_KILLS: Final = MetricName(
    "verl.host.oom_kills", "{process}", "Processes that the kernel killed since the container's memory was full."
)

METRICS.update({one.name: one for one in list(globals().values()) if isinstance(one, MetricName)})
