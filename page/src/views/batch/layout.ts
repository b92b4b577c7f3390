// A step's trajectories on the wall clock: rectangles where they can be told apart, else cells of pixels.

import type { BatchRow } from "../../api";
import { MOST_MARKS, type Mark } from "../../chart/painter";

export const KINDS = ["queue", "gate", "model", "tool", "reward"] as const;
export type Kind = (typeof KINDS)[number];

export const SORTS = ["end", "start", "seconds", "reward", "turns", "staleness"] as const;
export type Sort = (typeof SORTS)[number];

/** State of a cell: 0 nothing, 1 the trajectory's own code, then the kinds, then those that failed. */
export const OWN = 1;
export const stateOf = (kind: Kind, error: boolean): number => 2 + KINDS.indexOf(kind) + (error ? KINDS.length : 0);
export const STATES = 2 + 2 * KINDS.length;

type Part = BatchRow["parts"][number];
/** The state that a part is painted in; beyond STATES are the caller's own. */
export type StateOf = (part: Part, row: BatchRow) => number;
export const byKind: StateOf = ({ kind, error }) => stateOf(kind, error);

export function rowHeight(rows: number): number {
  if (rows <= 32) return 20;
  if (rows <= 160) return 4;
  return rows <= 512 ? 2 : 1;
}

export function extent(rows: readonly BatchRow[], consumed: number | null): [number, number] {
  let [from, to] = [Infinity, -Infinity];
  for (const row of rows) {
    from = Math.min(from, row.start, row.parts[0]?.start ?? row.start);
    to = Math.max(to, row.end);
  }
  if (consumed !== null) to = Math.max(to, consumed);
  return from < to ? [from, to] : [from, from + 1];
}

export function fits(rows: readonly BatchRow[]): boolean {
  let count = 0;
  for (const row of rows) count += 1 + row.parts.length;
  return count <= MOST_MARKS;
}

export function rectangles(rows: readonly BatchRow[], scale: (time: number) => number, height: number, state: StateOf = byKind): Mark[] {
  const gap = height >= 4 ? 1 : 0;
  const rects: Mark[] = [];
  rows.forEach((row, index) => {
    const y = index * height;
    const own = Math.max(1, Math.round(height / 3));
    rects.push({ x: scale(row.start), y: y + (height - own) / 2, width: scale(row.end) - scale(row.start), height: own, paint: OWN });
    for (const part of row.parts) {
      const { start, end, error } = part;
      rects.push({ x: scale(start), y, width: scale(end) - scale(start), height: height - gap, paint: state(part, row), error });
    }
  });
  return rects;
}

/** For each row and pixel the kind that covers most of it; a failed one wins. */
export function raster(
  rows: readonly BatchRow[],
  [from, to]: readonly [number, number],
  width: number,
  state: StateOf = byKind,
): Uint8Array {
  const cells = new Uint8Array(rows.length * width);
  const most = new Float32Array(width);
  const column = (to - from) / width;
  rows.forEach((row, index) => {
    most.fill(0);
    const cover = (start: number, end: number, painted: number, weight: number): void => {
      const first = Math.max(0, Math.floor((start - from) / column));
      const last = Math.min(width - 1, Math.floor((end - from) / column));
      for (let x = first; x <= last; x++) {
        const share = (Math.min(end, from + (x + 1) * column) - Math.max(start, from + x * column)) * weight;
        if (share >= most[x]! && share >= 0) [most[x], cells[index * width + x]] = [share, painted];
      }
    };
    cover(row.start, row.end, OWN, 1e-6);
    for (const part of row.parts) cover(part.start, part.end, state(part, row), part.error ? 1e6 : 1);
  });
  return cells;
}

/** How many have ended by then, as corners of a staircase. */
export function ended(rows: readonly BatchRow[]): { time: number; count: number }[] {
  const times = rows.map((row) => row.end).sort((a, b) => a - b);
  const corners: { time: number; count: number }[] = [];
  times.forEach((time, index) => {
    const last = corners[corners.length - 1];
    if (last && last.time === time) last.count = index + 1;
    else corners.push({ time, count: index + 1 });
  });
  return corners;
}

/** When half, nine in ten and all had ended; null of an empty batch. */
export function tail(rows: readonly BatchRow[]): { half: number; most: number; last: number } | null {
  const times = rows.map((row) => row.end).sort((a, b) => a - b);
  if (!times.length) return null;
  const at = (share: number): number => times[Math.min(times.length - 1, Math.ceil(share * times.length) - 1)]!;
  return { half: at(0.5), most: at(0.9), last: times[times.length - 1]! };
}

/** Seconds by kind, of all rows together. */
export function seconds(rows: readonly BatchRow[]): Record<Kind, number> {
  const sums = { queue: 0, gate: 0, model: 0, tool: 0, reward: 0 };
  for (const row of rows) for (const { kind, start, end } of row.parts) sums[kind] += (end - start) / 1000;
  return sums;
}
