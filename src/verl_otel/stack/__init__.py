"""The production path on hosts without containers: programs installed, configured, run and stopped by one command.

The configurations beside this file are the same that compose.yaml, Kubernetes and bare hosts take.
"""

from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).parent
"""Folder of the configurations."""


class StackError(Exception):
    """What is wrong and what to do, in one line for people."""
