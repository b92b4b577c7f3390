"""The budgets of verl-otel, each as a ratio measured in one run: `python -m benchmarks`.

A benchmark compares two sides that do the same thing, alternately, in pairs, and reports the median of the pairs'
ratios with its 95 % interval. `measuring` holds that arithmetic, `children` the processes, `sides/` the programs that
are measured, and one file each what is compared and why that is fair. Nothing here is a test: a missed budget is a line
in a table, a benchmark that can't run is an error.
"""
