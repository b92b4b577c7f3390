import assert from "node:assert/strict";
import { test } from "node:test";
import type { Lane, LaneSpan, Timeline } from "../src/api";
import { Hits } from "../src/chart/hits";
import { pan, since, ticks, zoom } from "../src/chart/range";
import { composition, drawn, extent, fleetOf, pick, worst } from "../src/views/timeline/cells";
import { parse, select } from "../src/views/timeline/grammar";
import { edges, gaps, heightOf, lineAt, place } from "../src/views/timeline/tracks";

const lane = (name: string, more: Partial<Lane> = {}): Lane => ({
  lane: name,
  kind: "rank",
  host: null,
  role: null,
  rank: null,
  replica: null,
  gap_s: null,
  idle: null,
  errors: 0,
  ...more,
});
const LANES = [
  lane("trainer", { kind: "trainer", host: "node-0" }),
  ...Array.from({ length: 8 }, (_, rank) =>
    lane(`actor/${rank}`, { role: "actor", rank, host: `node-${rank >> 2}`, idle: rank / 10, gap_s: rank === 5 ? 3 : 0.1 }),
  ),
  lane("replica/0", { kind: "replica", replica: 0, idle: null }),
];
const chosen = (text: string): string[] => select(LANES, parse(text)).map((row) => LANES[row]!.lane);
const span = (row: number, start: number, end: number): LaneSpan => ({
  row,
  start,
  end,
  state: "gen",
  name: "gen",
  step: 1,
  weights: null,
  error: false,
  trace: "t",
  span: `${row}${start}`,
});

test("all terms of a filter must hold", () => {
  assert.deepEqual(chosen("role:actor rank:0-2,7 host:node-0"), ["actor/0", "actor/1", "actor/2"]);
});

test("a minus turns a term round, a word looks at name and host", () => {
  assert.deepEqual(chosen("-kind:rank -trainer"), ["replica/0"]);
  assert.deepEqual(chosen("node-1").length, 4);
});

test("a lane of which nobody told is not above a bound, nor below", () => {
  assert.deepEqual(chosen("idle:>50%"), ["actor/6", "actor/7"]);
  assert.equal(chosen("idle:<=100%").includes("replica/0"), false);
});

test("every n-th of what is left", () => assert.deepEqual(chosen("role:actor every:4"), ["actor/0", "actor/4"]));

test("a mistake is told and filters nothing", () => {
  const filter = parse("rank:x bogus:1 every:0");
  assert.equal(filter.mistakes.length, 3);
  assert.equal(select(LANES, filter).length, LANES.length);
});

test("the worst rows keep their order where they are equal", () => {
  assert.deepEqual(worst(LANES, [1, 2, 3, 6], "gap", 3), [6, 1, 2]);
});

test("cells of chosen rows, their composition, and how far a state reaches", () => {
  const cells = Uint8Array.from([1, 1, 2, 3, 3, 3]);
  assert.deepEqual([...pick(cells, 3, [1])], [3, 3, 3]);
  assert.deepEqual(composition(cells, 3, [0, 1], 4)[2], [0, 0, 1, 1]);
  assert.deepEqual(extent(cells, 3, 0, 1), [0, 1]);
});

test("an answer with spans has cells, too: the innermost is what is done", () => {
  const spans = [span(0, 0, 10), { ...span(0, 4, 6), state: "adv" }, { ...span(1, 9, 9), state: "adv" }];
  const data = { from: 0, to: 10, width: 5, lanes: LANES.slice(0, 2), states: ["", "gen", "adv"], spans } as unknown as Timeline;
  assert.deepEqual([...drawn(data)], [1, 1, 2, 1, 1, 0, 0, 0, 0, 2]);
  assert.deepEqual(fleetOf({ ...data, cells: null, composition: null }, [0, 1])[2], [1, 0, 1]);
});

test("overlapping spans get lines of their own, and later rows move down", () => {
  const { lines, placed } = place([span(0, 0, 10), span(0, 5, 15), span(0, 10, 20), span(1, 0, 5)], 2, 20);
  assert.deepEqual(
    placed.map(({ line }) => line),
    [0, 1, 0, 2],
  );
  assert.equal(lines.length, 3);
  assert.equal(heightOf(lines), 40);
  assert.equal(lineAt(lines, 21), 2);
  assert.deepEqual(edges(lines), { top: [0, 20], bottom: [20, 40] });
});

test("between two spans a row was idle; at the edges only where its idle share says so", () => {
  const spans = [span(0, 20, 40), span(0, 60, 80)];
  assert.deepEqual(gaps(spans, [0.2], [0, 100]), [{ row: 0, start: 40, end: 60 }]);
  assert.equal(gaps(spans, [0.6], [0, 100]).length, 3);
  assert.deepEqual(gaps([], [null], [0, 100]), []);
});

test("the innermost interval is hit, else the nearest within reach", () => {
  const hits = new Hits([
    { row: 0, start: 0, end: 100 },
    { row: 0, start: 10, end: 20 },
    { row: 1, start: 50, end: 51 },
  ]);
  assert.equal(hits.at(0, 15)?.start, 10);
  assert.equal(hits.at(0, 90)?.start, 0);
  assert.equal(hits.at(1, 40), null);
  assert.equal(hits.at(1, 40, 12)?.start, 50);
  assert.equal(hits.step(0, 0, 1)?.start, 10);
  assert.equal(hits.step(0, 10, -1)?.start, 0);
});

test("zoom keeps what is under the cursor and stays in the run", () => {
  assert.deepEqual(zoom([0, 1000], 0.5, 250, [0, 1000]), [125, 625]);
  assert.deepEqual(zoom([0, 1000], 4, 500, [0, 1000]), [0, 1000]);
  assert.deepEqual(pan([900, 1000], 0.5, [0, 1000]), [900, 1000]);
});

test("ticks are round since the start, with as many digits as they need", () => {
  assert.deepEqual(
    ticks([5000, 65_000], 4, 5000).map(({ label }) => label),
    ["0:00", "0:15", "0:30", "0:45", "1:00"],
  );
  assert.equal(since(3_723_250, 10), "1:02:03.25");
});
