"""docs/compatibility.md, made from the instrumentors' own tables and verl's wheels. usage: python compatibility.py"""

import sys
from pathlib import Path

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parent))
from wheels import VERSIONS, find, parameters, tree

from verl_otel.door import INSTRUMENTORS
from verl_otel.instrumentors.base import Target

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
HEAD = """# Compatibility

Made by `make compatibility` from the instrumentors' tables and verl's wheels; a test holds it to them.

A hook point is *there* if the wheel has it with every parameter that is read; *no module* and *absent* mean that this
verl has no such thing; *changed* means that a parameter is missing. One that should be there and isn't costs what it
alone would tell: one warning names it, the rest works.

verl 0.9.1 is run for real in the tests. The other versions are held by this table.
"""


def state(version: str, target: Target) -> str:
    """What a release has at a hook point."""
    if tree(version, target.module) is None:
        return "no module"
    if (function := find(version, target.module, target.attribute)) is None:
        return "absent"
    return "there" if set(target.reads) <= parameters(function) else "changed"


def expected(version: str, target: Target) -> bool:
    """Whether the table says that a release has the hook point."""
    here = Version(version)
    return here >= Version(target.since) and (target.until is None or here <= Version(target.until))


def targets() -> list[tuple[str, Target]]:
    """Every target in verl, with its instrumentor's name."""
    return [(kind.name, one) for kind in INSTRUMENTORS for one in kind.targets if one.module.startswith("verl.")]


def render() -> str:
    """The document."""
    lines = [HEAD, f"| instrumentor | hook point | {' | '.join(VERSIONS)} |", f"|---|---|{'---|' * len(VERSIONS)}"]
    for name, target in targets():
        states = " | ".join(state(version, target) for version in VERSIONS)
        lines.append(f"| {name} | `{target.module}.{target.attribute}` | {states} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
