"""verl's trainer from a launcher of one's own: `instrument()` first, then what `python -m` would run."""

import runpy
import sys

import verl_otel

if __name__ == "__main__":
    verl_otel.instrument()
    sys.argv[0] = "verl.trainer.main_ppo"
    runpy.run_module("verl.trainer.main_ppo", run_name="__main__", alter_sys=True)
