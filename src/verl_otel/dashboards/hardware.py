"""Hardware: is it the limit?"""

from typing import Any

from verl_otel.dashboards.panels import BYTES, COUNT, RUN, SECONDS, SHARE, Panel, Query, Row, make

GPU = "{{host_name}} {{verl_gpu_index}}"
HOST = "{{host_name}}"


def gpu(metric: str, *labels: str) -> list[Query]:
    """One value a GPU; of all hosts, since another run on the host may tell of it."""
    return [Query(f"{metric}{{{','.join(labels)}}}", GPU)]


def most(metric: str) -> str:
    """PromQL of one value a GPU, with nothing but what says which GPU it is: such can be divided."""
    return f"max by (host_name, verl_gpu_index) ({metric})"


def npu(metric: str, scale: str, legend: str = "{{host_name}} {{id}}") -> Query:
    """Of npu-exporter's own, one value a NPU."""
    return Query(f"max by (host_name, id) ({metric}) {scale}", legend)


GPUS = Row(
    "GPUs",
    [
        Panel(
            "Utilisation",
            SHARE,
            "Near 1 in updates; a kernel that runs says nothing of how much of the GPU it uses.",
            gpu("hw_gpu_utilization_ratio"),
        ),
        Panel(
            "Memory",
            SHARE,
            "Below 0.95.",
            [
                # Of a NPU there are usage and limit alone.
                Query(
                    f"{most('hw_gpu_memory_utilization_ratio')} or "
                    f"{most('hw_gpu_memory_usage_bytes')} / {most('hw_gpu_memory_limit_bytes')}",
                    GPU,
                )
            ],
        ),
        Panel(
            "Power",
            "watt",
            "Near its limit in updates: that is a GPU that works.",
            [*gpu("hw_power_watts"), Query("max(verl_gpu_power_limit_watts)", "limit")],
        ),
        Panel("Temperature", "celsius", "Below 85.", gpu("hw_temperature_celsius")),
        Panel(
            "Clocks held down",
            COUNT,
            "power_cap alone.",
            [
                Query(
                    "sum by (host_name, verl_gpu_throttle_reason) (verl_gpu_throttled)",
                    "{{host_name}} {{verl_gpu_throttle_reason}}",
                )
            ],
        ),
        Panel("Clocks", "hertz", "Steady under load.", gpu("verl_gpu_clock_frequency_hertz", 'verl_gpu_clock="sm"')),
        Panel(
            "Errors",
            COUNT,
            "0 of uncorrected and Xid.",
            [Query("sum by (host_name, error_type) (increase(hw_errors_total[15m]))", "{{host_name}} {{error_type}}")],
        ),
        Panel("Lost", COUNT, "0.", [Query('sum by (host_name) (hw_status{hw_state="failed"})', HOST)], "stat"),
        Panel(
            "PCIe and NVLink",
            "Bps",
            "NVLink busy in collectives, PCIe in weight syncs and offloads.",
            [
                Query(
                    "sum by (host_name, verl_gpu_link, network_io_direction) (rate(hw_gpu_io_bytes_total[5m]))",
                    "{{host_name}} {{verl_gpu_link}} {{network_io_direction}}",
                )
            ],
        ),
        Panel(
            "Energy of a step",
            "joule",
            "Steady: joules are what a step costs.",
            [Query(f"verl_step_gpu_energy_joules{{{RUN}}}", "{{verl_run_id}}")],
        ),
        Panel(
            "Memory by process",
            BYTES,
            "By role and rank; a process without a role is somebody else's.",
            [Query("verl_gpu_process_memory_usage_bytes", "{{verl_role}} {{verl_rank}} {{process_pid}}")],
        ),
        Panel(
            "Memory as PyTorch sees it",
            BYTES,
            "Reserved near allocated: little is wasted.",
            [
                Query(f"verl_actor_perf_max_memory_allocated_bytes{{{RUN}}}", "allocated"),
                Query(f"verl_actor_perf_max_memory_reserved_bytes{{{RUN}}}", "reserved"),
            ],
        ),
    ],
)
NPUS = Row(
    "NPUs, beyond what GPUs have",
    [
        Panel(
            "Bandwidth of HBM",
            SHARE,
            "High in decoding, which reads all weights for each token.",
            [npu("npu_chip_info_hbm_bandwidth_utilization", "/ 100")],
            width=12,
        ),
        Panel(
            "Network of NPUs",
            "Bps",
            "Busy in collectives and weight syncs.",
            [
                npu("npu_chip_info_bandwidth_rx", "* 1e6", "{{host_name}} {{id}} receive"),
                npu("npu_chip_info_bandwidth_tx", "* 1e6", "{{host_name}} {{id}} transmit"),
            ],
            width=12,
        ),
    ],
)
HOSTS = Row(
    "Hosts",
    [
        Panel(
            "Memory",
            SHARE,
            "Below 0.9: at 0.95 Ray kills.",
            [
                Query('system_memory_utilization_ratio{state="used"}', HOST),
                Query(
                    "max by (host_name) (container_memory_usage_bytes) / "
                    "max by (host_name) (verl_host_memory_limit_bytes)",
                    "container of {{host_name}}",
                ),
            ],
        ),
        Panel(
            "CPU",
            COUNT,
            "CPUs in use.",
            [
                Query(
                    'sum by (host_name, cpu_mode) (rate(system_cpu_time_seconds_total{cpu_mode!="idle"}[5m]))',
                    "{{host_name}} {{cpu_mode}}",
                )
            ],
        ),
        Panel(
            "Shared memory and object store",
            BYTES,
            "Below its size.",
            [
                Query("verl_host_shm_usage_bytes", "shared memory of {{host_name}}"),
                Query("verl_host_object_store_usage_bytes", "object store of {{host_name}}"),
            ],
        ),
        Panel(
            "Memory by process",
            BYTES,
            "Steady; one that rises is a leak.",
            [
                Query(
                    f"process_memory_usage_bytes{{{RUN}}}",
                    "{{verl_role}} {{verl_rank}}{{verl_replica}} {{process_pid}}",
                )
            ],
        ),
        Panel(
            "CPU by process",
            SECONDS,
            "CPU seconds a second.",
            [
                Query(
                    f"sum by (verl_role, verl_rank, process_pid) (rate(process_cpu_time_seconds_total{{{RUN}}}[5m]))",
                    "{{verl_role}} {{verl_rank}} {{process_pid}}",
                )
            ],
        ),
        Panel(
            "Network",
            "Bps",
            "Busy in weight syncs.",
            [
                Query(
                    "sum by (host_name, direction) (rate(system_network_io_bytes_total[5m]))",
                    "{{host_name}} {{direction}}",
                )
            ],
        ),
        Panel(
            "Disk",
            "Bps",
            "Busy in checkpoints.",
            [
                Query(
                    "sum by (host_name, direction) (rate(system_disk_io_bytes_total[5m]))",
                    "{{host_name}} {{direction}}",
                )
            ],
        ),
        Panel("Killed for memory", COUNT, "0.", [Query("increase(verl_host_oom_kills_total[15m])", HOST)]),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make("hardware", "Hardware", "Is hardware the limit, and is it well?", [GPUS, NPUS, HOSTS])
