"""Dashboards as they are checked in: made by the code, and each panel with all that a reader needs."""

import json
import re

import pytest

from conftest import ROOT

pytest.importorskip("grafana_foundation_sdk")
from verl_otel.dashboards.__main__ import FOLDER, render

MADE = render()


def panels(text):
    return [one for one in json.loads(text)["panels"] if one["type"] != "row"]


def test_what_is_checked_in_is_what_the_code_makes():
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == MADE, "run `make dashboards`"
    assert render() == MADE


@pytest.mark.parametrize("name", MADE)
def test_each_panel_says_its_unit_what_is_good_and_where_its_data_are(name):
    assert panels(MADE[name])
    for one in panels(MADE[name]):
        assert one["fieldConfig"]["defaults"]["unit"], one["title"]
        assert len(one["description"]) > 1, one["title"]
        assert one["datasource"]["uid"] in ("${metrics}", "${traces}")
        assert all(target["datasource"] == one["datasource"] for target in one["targets"])
    titles = [one["title"] for one in panels(MADE[name])]
    rows = [one["title"] for one in json.loads(MADE[name])["panels"] if one["type"] == "row"]
    assert len(rows) == len(set(rows))
    assert len(titles) == len(panels(MADE[name]))


def test_they_link_to_each_other_and_let_runs_be_chosen():
    for text in MADE.values():
        made = json.loads(text)
        assert [one["tags"] for one in made["links"]] == [["verl"]]
        assert "verl" in made["tags"]
        assert {"metrics", "traces", "run"} <= {one["name"] for one in made["templating"]["list"]}


def test_some_panels_lead_into_traces():
    everything = [target for text in MADE.values() for one in panels(text) for target in one["targets"]]
    assert any(one.get("exemplar") for one in everything)
    assert any(one.get("queryType") == "traceql" for one in everything)


def test_each_panel_named_beside_the_peers_exists_and_none_of_the_peers_is_left_out():
    titles, rows = {}, {}
    for made in map(json.loads, MADE.values()):
        of = made["title"].removeprefix("verl: ")
        titles[of] = [one["title"] for one in made["panels"] if one["type"] != "row"]
        rows[of] = [one["title"] for one in made["panels"] if one["type"] == "row"]
    text = (ROOT / "docs" / "peer-panels.md").read_text()
    named = rf"`({'|'.join(titles)}): ([^`]+)`(?: \(([^()]+(?:\([^()]+\))?)\))?"
    for of, title, row in re.findall(named, text):
        assert title in titles[of], f"{of}: {title}"
        assert titles[of].count(title) == 1 or row in rows[of], f"{of}: {title} is there more than once"

    together, *parts = text.split("\n## ")
    said = {name: [int(one or 0) for one in counts] for name, *counts in cells(together)}
    found = {}
    for name, _, table in (part.partition("\n") for part in parts):
        peers = [(int(vllm or 0), int(sglang or 0), ours) for _, vllm, sglang, ours in cells(table)]
        assert all(ours.startswith(("`", "not ours: ")) for _, _, ours in peers), name
        left_out = sum(vllm + sglang for vllm, sglang, ours in peers if ours.startswith("not ours: "))
        vllm, sglang = (sum(one[engine] for one in peers) for engine in (0, 1))
        found[name] = [vllm, sglang, vllm + sglang - left_out, left_out]
    assert said == found | {"together": [sum(counts) for counts in zip(*found.values(), strict=True)]}
    assert said["together"][:2] == [146, 124]


def cells(markdown):
    """Of each table's rows, without its head."""
    lines = [line.strip("|").split("|") for line in markdown.splitlines() if line.startswith("|")]
    return [[one.strip() for one in line] for line in lines[2:]]
