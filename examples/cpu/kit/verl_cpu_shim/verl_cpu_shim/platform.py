"""A CPU platform for verl 0.9, registered from outside through verl's own plug-in point.

verl knows accelerators only. With VERL_PLATFORM=cpu this platform answers for one; each bridge says what would fail
without it. VERL_ENGINE_DEVICE=cuda must be set too: verl registers its FSDP engines for accelerators only.
"""

import os
import resource
from contextlib import contextmanager

import torch
import torch.distributed as dist
from verl.plugin.platform import PlatformBase, PlatformRegistry

from verl_cpu_shim.sglang import bridge_sglang

ACTIVE = os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def _peak_memory(*_args, **_kwargs) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory_now(*_args, **_kwargs) -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _memory_info(*_args, **_kwargs) -> tuple[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def _nothing(*_args, **_kwargs) -> None:
    return None


def bridge_device_module() -> None:
    """torch.cpu lacks functions that verl calls on every device module.

    verl compares `get_torch_device() == torch.cpu`, so the module itself must have them; a look-alike won't do.
    """
    missing = {
        "empty_cache": _nothing,
        "ipc_collect": _nothing,
        "memory_allocated": _memory_now,
        "memory_reserved": _memory_now,
        "max_memory_allocated": _peak_memory,
        "max_memory_reserved": _peak_memory,
        "reset_peak_memory_stats": _nothing,
        "mem_get_info": _memory_info,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
    }
    for name, function in missing.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, function)


def bridge_process_group() -> None:
    """verl asks for the backends "cpu:gloo,<device>:<backend>"; with the device "cpu" torch refuses the double."""
    original = dist.init_process_group
    if getattr(original, "_verl_cpu_shim", False):
        return

    def init_process_group(backend=None, *args, **kwargs):
        if isinstance(backend, str):
            backend = ",".join(dict.fromkeys(backend.split(",")))
        bridge_value_model()  # only what trains comes here
        return original(backend, *args, **kwargs)

    init_process_group._verl_cpu_shim = True
    dist.init_process_group = init_process_group


def bridge_value_model() -> None:
    """verl asks for flash attention in a critic's model, whatever the configuration says."""
    from transformers import AutoModelForTokenClassification

    original = AutoModelForTokenClassification.from_pretrained.__func__
    if getattr(original, "_verl_cpu_shim", False):
        return

    def from_pretrained(cls, *args, **kwargs):
        if kwargs.get("attn_implementation") == "flash_attention_2":
            kwargs["attn_implementation"] = "eager"
        return original(cls, *args, **kwargs)

    from_pretrained._verl_cpu_shim = True
    AutoModelForTokenClassification.from_pretrained = classmethod(from_pretrained)


def bridge_offload() -> None:
    """verl offloads a reference model to pinned host memory, which a CPU-only torch can't pin."""
    from torch.distributed.fsdp import CPUOffloadPolicy

    original = CPUOffloadPolicy.__init__
    if getattr(original, "_verl_cpu_shim", False):
        return

    def init(self, pin_memory=True):
        original(self, pin_memory=False)

    init._verl_cpu_shim = True
    CPUOffloadPolicy.__init__ = init


if ACTIVE:
    bridge_device_module()
    bridge_process_group()
    bridge_offload()
    bridge_sglang()


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """What verl asks of a platform, answered for a CPU."""

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self):
        return torch.cpu

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check=False) -> bool:
        return False  # never found by itself, only by VERL_PLATFORM=cpu

    def current_device(self):
        return torch.device("cpu")  # verl moves tensors to it; a number would mean an accelerator

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index=None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0):
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"  # Ray sets it for actors that hold the pretended GPU

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"  # verl counts GPU or NPU only; `ray.init(num_gpus=1)` pretends one

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights travel by POSIX shared memory

    def cudart(self):
        return None
