"""The ways to a cluster, without verl, on the oldest Ray, those in between, and beside an OpenTelemetry of old.

Part of `make test-all`: each row is a venv of 300 MB and two minutes. usage: python tests/ray_matrix.py
"""

import subprocess
import sys

from matrix import ROOT, find, prepare

LOCAL = "local_cluster or two_runs or (already_up and file)"
JOBS = "local_cluster or a_submitted_job_with"
OLD = ("ray[default]==2.46.0", "opentelemetry-sdk==1.30.0", "opentelemetry-exporter-prometheus==0.51b0")
ROWS = (
    ("python3.10", "ray-2.46", ("ray==2.46.0",), LOCAL),
    ("python3.11", "ray-2.49", ("ray==2.49.2",), LOCAL),
    ("python3.12", "ray-2.53", ("ray==2.53.0",), LOCAL),
    ("python3.11", "ray-2.46-with-dashboard-and-opentelemetry-1.30", OLD, JOBS),
)


def main() -> int:
    failed = []
    for python, name, before, tests in ROWS:
        if (path := find(python)) is None:
            print(f"{name}: left out, there is no {python} that can make a venv here", flush=True)
            continue
        print(f"{name} on {python}:", flush=True)
        # The package is installed as a user would, whatever that does to what is there.
        run = [str(prepare(path, ["psutil"], name, before)), "-m", "pytest", "-q", "tests/integration/test_clusters.py"]
        if subprocess.run([*run, "-k", tests], cwd=ROOT).returncode != 0:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
