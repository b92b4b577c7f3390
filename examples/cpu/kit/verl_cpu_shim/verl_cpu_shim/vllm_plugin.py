"""Keep vLLM's linear weights reloadable on the CPU.

vLLM's CPU backend packs each linear weight for oneDNN and throws the original away. verl's weight sync loads into that
original and packs again; so it is kept.
"""

import os


def register() -> None:
    """Called by vLLM in each of its processes."""
    if os.environ.get("VERL_PLATFORM", "").strip().lower() != "cpu":
        return
    from vllm.model_executor.layers import utils

    original = utils.dispatch_cpu_unquantized_gemm
    if getattr(original, "_verl_cpu_shim", False):
        return

    def dispatch_cpu_unquantized_gemm(layer, remove_weight):
        return original(layer, remove_weight=False)

    dispatch_cpu_unquantized_gemm._verl_cpu_shim = True
    utils.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm
