"""docs/test-results.md, from what pytest wrote of the last `make test-all`. usage: results.py FILE.xml...

Of a test that was run again, the last file's result is the one that counts.
"""

import os
import platform
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "test-results.md"
HEAD = """# Test results

Written by `make test-all`. Figures are what the tests recorded; tests without any are counted only. Of a test that was
run again, it is the last run.

{tests} tests, {failed} failed, {skipped} skipped,
in {minutes:.0f} minutes on {cores} cores, Python {python}; {versions}.

| test | result | figures |
|---|---|---|
"""
SHOWN = ("verl", "ray", "vllm", "torch", "opentelemetry-sdk", "wrapt")


def main() -> None:
    found = [case for path in sys.argv[1:] for case in ElementTree.parse(path).iter("testcase")]
    cases = list({(case.get("classname"), case.get("name")): case for case in found}.values())
    states = [state(case) for case in cases]
    head = HEAD.format(
        tests=len(cases),
        failed=states.count("failed"),
        skipped=states.count("skipped"),
        minutes=sum(float(case.get("time", 0)) for case in cases) / 60,
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        versions=", ".join(f"{name} {version(name)}" for name in SHOWN),
    )
    rows = [row(case) for case in cases if figures(case) or state(case) != "passed"]
    DOCUMENT.write_text(head + "".join(rows))


def row(case: ElementTree.Element) -> str:
    place = case.get("classname", "").removeprefix("tests.").replace(".", "/")
    return f"| `{place}`: {case.get('name', '').replace('_', ' ')} | {state(case)} | {figures(case)} |\n"


def state(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def figures(case: ElementTree.Element) -> str:
    return ", ".join(f"{one.get('name')}: {one.get('value')}" for one in case.iter("property"))


if __name__ == "__main__":
    main()
