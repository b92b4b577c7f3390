"""docs/compatibility.md, made from the instrumentors' own tables and verl's wheels. usage: python compatibility.py"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from wheels import VERSIONS, unpacked

from verl_otel.doctor.hook_points import state
from verl_otel.door import INSTRUMENTORS
from verl_otel.instrumentors.base import Target

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
HEAD = """# Compatibility

Needs Python 3.10 to 3.13 and OpenTelemetry 1.30 or newer; the tests that need no verl run on all of these.

What was run for real, trainers and clusters too, is in [where it runs](where-it-runs.md). For the rest, and for other
versions of verl, the table below holds.

It is made by `make compatibility` from the instrumentors' tables and verl's wheels; a test holds it to them. A hook
point is *there* if the wheel has it with every parameter that is read; *no module* and *absent* mean that this verl
has no such thing; *changed* means that a parameter is missing. If a hook point is missing that should be there, one
warning names it, and only the data read there is missing. Besides, `transfer_queue.close`, the registered methods of
the worker classes, and private functions of Ray's (`src/verl_otel/ray/`) are wrapped; those of Ray's are held by
tests on the real Ray.
"""


def targets() -> list[tuple[str, Target]]:
    """Every target in verl, with its instrumentor's name."""
    return [(kind.name, one) for kind in INSTRUMENTORS for one in kind.targets if one.module.startswith("verl.")]


def render() -> str:
    """The document."""
    lines = [HEAD, f"| instrumentor | hook point | {' | '.join(VERSIONS)} |", f"|---|---|{'---|' * len(VERSIONS)}"]
    for name, target in targets():
        states = " | ".join(state(unpacked(version), target) for version in VERSIONS)
        lines.append(f"| {name} | `{target.module}.{target.attribute}` | {states} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
