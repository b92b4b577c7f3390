"""SGLang's weight sync rewrites the device in what a tensor is reduced to, and a CPU tensor has none there."""

import torch.multiprocessing
import wrapt


def _mend(module) -> None:
    modify = module._modify_tuple
    module._modify_tuple = lambda found, index, modifier: (
        modify(found, index, modifier) if len(found) > index else found
    )
    # The receiver is no child of the sender: it can open a file by name, but has no descriptor of it.
    torch.multiprocessing.set_sharing_strategy("file_system")


def bridge_sglang() -> None:
    """Once SGLang is imported, if it is."""
    wrapt.register_post_import_hook(_mend, "sglang.srt.utils.patch_torch")
