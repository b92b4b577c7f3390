// What the cursor is on, in words, and how it is drawn over a picture.
import type { JSX } from "preact";
import type { LaneSpan, Timeline } from "../../api";
import { since } from "../../chart/range";
import { clock, seconds } from "../../format";
import { extent } from "./cells";

export interface Mark {
  line: number;
  time: number;
  text: string[];
}

export function describe(
  data: Timeline,
  cells: Uint8Array | null,
  row: number,
  time: number,
  span: LaneSpan | null,
  origin: number,
  step: number | null,
): string[] {
  const lane = data.lanes[row];
  const where = `${lane?.lane ?? "—"}${lane?.host ? ` on ${lane.host}` : ""}`;
  const when = `${since(time - origin, 100)} into the run, ${clock(time)}${step === null ? "" : `, step ${step}`}`;
  if (span) {
    const weights = span.weights === null ? [] : [`weights version ${span.weights}`];
    const took = seconds((span.end - span.start) / 1000);
    return [where, `${span.error ? "✕ failed: " : ""}${span.name}`, `${took}, from ${since(span.start - origin, 10)}`, ...weights, when];
  }
  if (!cells) return [where, "no span here: idle, or not told of", when];
  const column = Math.floor(((time - data.from) / (data.to - data.from)) * data.width);
  if (column < 0 || column >= data.width) return [where, "not loaded yet", when];
  const state = data.states[cells[row * data.width + column] ?? 0];
  const [first, last] = extent(cells, data.width, row, column);
  const about = ((last - first + 1) * (data.to - data.from)) / data.width / 1000;
  return [where, state ? `${state} for about ${seconds(about, 2)}` : "nothing known here", when];
}

export function Cursor({
  x,
  line,
  brush,
}: {
  x: number | null;
  line: { top: number; height: number } | undefined;
  brush: readonly [number, number] | null;
}): JSX.Element {
  return (
    <>
      {x !== null ? <div class="cursor-x" style={{ left: `${x}px` }} /> : null}
      {line && x !== null ? <div class="cursor-y" style={{ top: `${line.top}px`, height: `${Math.max(2, line.height)}px` }} /> : null}
      {brush ? <div class="brush" style={{ left: `${brush[0]}px`, width: `${brush[1] - brush[0]}px` }} /> : null}
    </>
  );
}
