"""The API answers what the page's types say: every field of every interface, and none besides."""

import re

import pytest
from starlette.testclient import TestClient

from conftest import ROOT
from local_rows import at, ms
from local_served import URL, served
from verl_otel import semconv
from verl_otel.local.server import create_app

TYPES = ROOT / "page" / "src" / "api.ts"
ANSWERS = {
    "": "Overview",
    "/config": "Configuration",
    "/curves?key=critic/score/mean": "Curves",
    "/steps": "Steps",
    "/timeline": "Timeline",
    "/timeline?width=1": "Timeline",
    "/stragglers": "Stragglers",
    "/batch?step=1": "Batch",
    "/trajectories": "Trajectories",
    "/signal": "Signal",
    "/messages/u-0/0000000000000003": "Messages",
    "/trace/t1": "Trace",
    "/engine": "Panels",
    "/hardware": "Panels",
    "/pipeline": "Panels",
}
LISTS = {"/keys": ("keys", "Key"), "/marks": ("marks", "Mark"), "/groups?step=1": ("groups", "Group")}
LISTS |= {"/tools": ("rows", "ToolRow")}


def interfaces():
    """Fields of each interface, with their types as text."""
    text = re.sub(r"//.*|/\*.*?\*/", "", TYPES.read_text())
    found = {}
    for name, begin in ((one[1], one.end()) for one in re.finditer(r"export interface (\w+) \{", text)):
        depth, end = 1, begin
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found[name] = fields(text[begin : end - 1])
    return found


def fields(body):
    parts, depth, last = [], 0, 0
    for place, letter in enumerate(body):
        depth += (letter in "{[<") - (letter in "}]>")
        if letter == ";" and depth == 0:
            parts.append(body[last:place])
            last = place + 1
    parts.append(body[last:])
    split = (part.partition(":") for part in parts if part.strip())
    return {name.strip(): kind.strip() for name, _, kind in split}


KNOWN = interfaces()


def check(value, kind, where):
    """A value against a type: named interfaces, inline ones, lists, null, numbers, texts."""
    options = [one.strip() for one in kind.split(" | ")] if not kind.startswith("{") else [kind]
    if value is None:
        assert "null" in options or "null" in kind, f"{where} is null, and may not be"
        return
    if "{" in kind and not kind.startswith("Record"):
        check_inline(value, kind, where)
        return
    named = next((one.rstrip("[]") for one in options if one.rstrip("[]") in KNOWN), None)
    if named is not None:
        for one in value if isinstance(value, list) else [value]:
            check_fields(one, KNOWN[named], f"{where}: {named}")
    elif options[0] in ("number", "string", "boolean"):
        wanted = {"number": (int, float), "string": str, "boolean": bool}[options[0]]
        assert isinstance(value, wanted), f"{where} is {value!r}, not a {kind}"
    elif options[0].endswith("[]") or options[0].startswith("("):
        assert isinstance(value, list), f"{where} is {value!r}, not a {kind}"


def check_inline(value, kind, where):
    inner = fields(kind[kind.index("{") + 1 : kind.rindex("}")])
    for one in value if isinstance(value, list) else [value]:
        check_fields(one, inner, where)


def check_fields(value, wanted, where):
    assert value.keys() - {"rev"} == wanted.keys() - {"rev"}, where
    for name, kind in wanted.items():
        if name in value:
            check(value[name], kind, f"{where}.{name}")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    store = served()
    rows = store.rows
    for step in (2, 3):
        for rank in range(3):
            rows.span(
                "verl.worker.update", step * 10, step * 10 + 1 + rank, step=step, phase="update", role="actor",
                rank=rank, lane=f"actor/{rank}", error=rank == 1 and step == 3, message="E: no",
            )  # fmt: skip
    rows.trajectory("u", 1, 0, 5, None, outcome="failed")
    rows.span("chat", 1, 2, trace="u-0", parent="0000000000000003")
    rows.span("verl.reward", 3, 4, trace="u-0", links=[("t1", "0000000000000001")])
    rows.points(semconv.REPLICA_IDLE.name, [(90, 0.5)], {semconv.ROLE: "rollout", semconv.REPLICA: 0})
    rows.points(semconv.OPEN_DURATION.name, [(99, 3)], {semconv.PHASE: "gen"})
    rows.event(semconv.EVENT_RUN_END, 100, {semconv.RUN_OUTCOME: "failed", "exception.type": "E"})
    rows.connection.execute("UPDATE processes SET last_seen = ?", [at(100)])
    run = {
        "id": "a/run", "project": None, "experiment": None, "status": "failed", "step": 3, "total_steps": None,
        "started": ms(0), "updated": ms(100), "ended": ms(100), "host": None, "attempts": 1, "algorithm": None,
        "model": None, "engine": None, "trainer": None, "reward": None, "bytes": 1, "demo": False, "rev": 7,
    }  # fmt: skip
    store.get = lambda name: run
    with TestClient(create_app(store, page=tmp_path_factory.mktemp("page")), base_url=URL) as found:
        yield found


@pytest.mark.parametrize("path", ANSWERS)
def test_an_answer_has_the_fields_of_its_type(client, path):
    answer = client.get(f"/api/runs/a%2Frun{path}").json()
    check_fields(answer, KNOWN[ANSWERS[path]], ANSWERS[path])


@pytest.mark.parametrize("path", LISTS)
def test_each_of_a_list_has_the_fields_of_its_type(client, path):
    name, kind = LISTS[path]
    found = client.get(f"/api/runs/a%2Frun{path}").json()[name]
    assert found, "nothing to compare"
    for one in found:
        check_fields(one, KNOWN[kind], kind)
