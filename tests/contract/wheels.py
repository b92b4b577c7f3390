"""verl's released wheels, unpacked and read without importing them: old ones can't be imported beside a new torch."""

import functools
import subprocess
import sys
import zipfile
from pathlib import Path

VERSIONS = ("0.7.1", "0.8.0", "0.9.0", "0.9.1")
CACHE = Path(__file__).resolve().parents[2] / ".work" / "wheels"


@functools.cache
def unpacked(version: str) -> Path:
    """The folder of a release's files; fetched once by pip (2 MB each)."""
    folder = CACHE / f"verl-{version}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*pip, "-d", str(CACHE), f"verl=={version}"], check=True)
        (wheel,) = CACHE.glob(f"verl-{version}-*.whl")
        partial = folder.with_suffix(".partial")
        zipfile.ZipFile(wheel).extractall(partial)
        partial.rename(folder)
    metadata = (folder / f"verl-{version}.dist-info" / "METADATA").read_text()
    assert f"Version: {version}" in metadata  # a matrix must run what it says
    return folder
