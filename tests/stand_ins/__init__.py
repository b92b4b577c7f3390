"""What can't exist on a machine without a GPU, at the narrowest seam, named as what it is."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def compiled_nvml(folder):
    """Folder with a `libnvidia-ml.so.1` that isn't NVIDIA's, for LD_LIBRARY_PATH; skips without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("left out: there is no C compiler here")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", folder / "libnvidia-ml.so.1", HERE / "nvml.c"], check=True
    )
    return folder
