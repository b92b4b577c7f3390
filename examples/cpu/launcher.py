"""verl's trainer from a launcher of one's own: `instrument()` first, then what `python -m` would run."""

import runpy
import sys

import verl_otel

if __name__ == "__main__":
    verl_otel.instrument()
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
