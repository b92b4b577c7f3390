"""The budgets of verl-otel, each as a ratio measured in one run: `python -m benchmarks`.

A benchmark compares two sides that do the same thing, alternately, in pairs, and reports the median of the pairs'
ratios with its 95 % interval. `measuring` holds that arithmetic, `children` the processes, `sides/` the programs that
are measured, and one file each what is compared and why that is fair. Nothing here is a test: a missed budget is a line
in a table, a benchmark that can't run is an error.
"""

import sys
from pathlib import Path

# What the tests and the examples have, which are no packages.
_ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(_ROOT / "tests"), str(_ROOT / "examples" / "cpu")]
