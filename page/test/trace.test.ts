import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchRow, Trace, TraceSpan, Trajectory } from "../src/api";
import { ended, fits, raster, stateOf, tail } from "../src/views/batch/layout";
import { barOf, bins, reach } from "../src/views/rollouts/model";
import { above, foldedAtFirst, part, rows, search, tree } from "../src/views/trace/layout";

const span = (id: string, parent: string | null, start: number, end: number, more: Partial<TraceSpan> = {}): TraceSpan => ({
  span: id,
  parent,
  name: id,
  start,
  end,
  error: false,
  message: null,
  role: null,
  rank: null,
  host: null,
  process: "",
  depth: 0,
  folded: null,
  attributes: {},
  events: [],
  ...more,
});
const trace = (spans: TraceSpan[], more: Partial<Trace> = {}): Trace => ({
  trace: "t",
  name: "root",
  start: 0,
  end: 100,
  total: spans.length,
  spans,
  critical: [],
  skewed: [],
  truncated: false,
  linked: [],
  ...more,
});

test("children follow their parent by start; a missing parent is told", () => {
  const roots = tree(
    trace([span("b", "root", 50, 90), span("a", "root", 10, 60), span("root", null, 0, 100), span("lost", "gone", 20, 30)]),
  );
  assert.deepEqual(
    rows(roots, new Set()).map(({ span: one, depth }) => [one.span, depth]),
    [
      ["root", 0],
      ["a", 1],
      ["b", 1],
      ["lost", 0],
    ],
  );
  assert.equal(roots[1]!.orphan, true);
});

test("own time leaves out where any child ran, once", () => {
  const [root] = tree(trace([span("root", null, 0, 100_000), span("a", "root", 10_000, 60_000), span("b", "root", 50_000, 90_000)]));
  assert.equal(root!.self_s, 20);
});

test("spans that name each other as parent don't hang the page", () => {
  assert.equal(rows(tree(trace([span("a", "b", 0, 1), span("b", "a", 0, 1)])), new Set()).length, 2);
});

test("a folded row hides what is below, and shows where it ran and failed", () => {
  const [root] = tree(
    trace([
      span("root", null, 0, 100),
      span("a", "root", 0, 50),
      span("x", "a", 5, 10, { error: true }),
      span("y", "a", 9, 20),
      span("z", "a", 40, 45),
    ]),
  );
  const a = root!.children[0]!;
  assert.deepEqual(
    rows([root!], new Set(["a"])).map(({ span: one }) => one.span),
    ["root", "a"],
  );
  assert.deepEqual([a.below, a.errorsBelow], [3, 1]);
  assert.deepEqual(part(a, 1), [
    [5, 20],
    [40, 45],
  ]);
  assert.deepEqual(above(a.children[0]!), ["a", "root"]);
});

test("a large trace starts folded, but for what is critical or failed", () => {
  const many = Array.from({ length: 500 }, (_, n) => span(`c${n}`, n < 250 ? "a" : "b", n, n + 1));
  const roots = tree(
    trace([span("root", null, 0, 1000), span("a", "root", 0, 400), span("b", "root", 400, 900), ...many], { critical: ["root", "b"] }),
  );
  assert.deepEqual([...foldedAtFirst(roots, 503)], ["a"]);
  assert.equal(foldedAtFirst(roots, 10).size, 0);
});

test("search looks at names, ranks, errors and attributes", () => {
  const roots = tree(
    trace([
      span("root", null, 0, 9),
      span("chat", "root", 0, 1, { rank: 3, attributes: { "gen_ai.usage.output_tokens": 311 } }),
      span("tool", "root", 2, 3, { error: true }),
    ]),
  );
  const found = (text: string): string[] => search(roots, text).map(({ span: one }) => one.span);
  assert.deepEqual(found("output_tokens=311"), ["chat"]);
  assert.deepEqual(found("rank:3 chat"), ["chat"]);
  assert.deepEqual(found("is:error"), ["tool"]);
  assert.deepEqual(found(" "), []);
});

const row = (start: number, end: number, parts: BatchRow["parts"] = []): BatchRow => ({
  trace: `${start}`,
  span: "s",
  uid: null,
  session: null,
  start,
  end,
  reward: null,
  turns: null,
  tokens: null,
  staleness: null,
  outcome: null,
  parts,
});

test("a pixel has the kind that covers most of it, and a failure wins", () => {
  const cells = raster(
    [
      row(0, 100, [
        { kind: "model", start: 0, end: 58, error: false },
        { kind: "tool", start: 58, end: 60, error: false },
        { kind: "tool", start: 81, end: 82, error: true },
      ]),
    ],
    [0, 100],
    10,
  );
  assert.equal(cells[5], stateOf("model", false));
  assert.equal(cells[7], 1);
  assert.equal(cells[8], stateOf("tool", true));
});

test("the staircase of ends, and its tail", () => {
  const batch = [row(0, 10), row(0, 30), row(0, 10), row(0, 90)];
  assert.deepEqual(ended(batch), [
    { time: 10, count: 2 },
    { time: 30, count: 3 },
    { time: 90, count: 4 },
  ]);
  assert.deepEqual(tail(batch), { half: 10, most: 90, last: 90 });
  assert.equal(tail([]), null);
});

test("too many parts are painted as cells", () => {
  const parts = Array.from({ length: 30 }, () => ({ kind: "model" as const, start: 0, end: 1, error: false }));
  assert.equal(fits(Array.from({ length: 10 }, () => row(0, 1, parts))), true);
  assert.equal(fits(Array.from({ length: 1024 }, () => row(0, 1, parts))), false);
});

test("bars start at 0, to both sides; what is absent has none", () => {
  const value = (one: Trajectory): number | null => one.reward;
  const scale = reach([{ reward: -1 }, { reward: 3 }, { reward: null }] as Trajectory[], value);
  assert.deepEqual(barOf(-1, scale), [0, 0.25]);
  assert.deepEqual(barOf(3, scale), [0.25, 1]);
  assert.equal(barOf(null, scale), null);
  assert.equal(reach([{ reward: null }] as Trajectory[], value), null);
});

test("histograms with closed ends, and OTel's with open ones", () => {
  assert.deepEqual(bins({ bounds: [0, 1, 2], counts: [5, 6] }), [
    { from: 0, to: 1, count: 5 },
    { from: 1, to: 2, count: 6 },
  ]);
  assert.deepEqual(bins({ bounds: [1], counts: [5, 6] }), [
    { from: null, to: 1, count: 5 },
    { from: 1, to: null, count: 6 },
  ]);
});
