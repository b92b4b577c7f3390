"""Write all dashboards as JSON. usage: python -m verl_otel.dashboards [FOLDER]"""

import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from verl_otel.dashboards import compare, engine, hardware, health, queue, rollouts, run, time

DASHBOARDS: Final = (run, time, rollouts, engine, queue, hardware, health, compare)
FOLDER: Final = Path(__file__).resolve().parents[1] / "stack" / "grafana" / "dashboards"


def render() -> dict[str, str]:
    """JSON by file name; equal for equal code."""
    encoder = JSONEncoder(sort_keys=True, indent=1)
    found = {}
    for one in DASHBOARDS:
        made = one.build().build()
        found[f"{made.uid}.json"] = encoder.encode(made) + "\n"
    return found


def main() -> int:
    """Write them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (folder / name).write_text(text)
        sys.stdout.write(f"{folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
