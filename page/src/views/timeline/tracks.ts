// Lines of a timeline: one for each lane, or several where a lane's spans overlap (requests of a replica, nested phases).

import type { LaneSpan } from "../../api";

export interface Line {
  /** Index into the rows shown. */
  row: number;
  top: number;
  height: number;
}

export interface Placed extends LaneSpan {
  /** Index into the lines. */
  line: number;
}

/** More lines than this in one lane are drawn over each other, in its last. */
const MOST = 12;
const THIN = 7;

export function plainLines(rows: number, height: number): Line[] {
  return Array.from({ length: rows }, (_, row) => ({ row, top: row * height, height }));
}

/** `spans` have rows that index the rows shown. A lane grows with its overlaps while there is room for `lines` more. */
export function place(spans: readonly LaneSpan[], rows: number, height: number): { lines: Line[]; placed: Placed[] } {
  const byRow: LaneSpan[][] = Array.from({ length: rows }, () => []);
  for (const span of spans) byRow[span.row]?.push(span);
  const lines: Line[] = [];
  const placed: Placed[] = [];
  let top = 0;
  byRow.forEach((list, row) => {
    list.sort((a, b) => a.start - b.start || b.end - a.end);
    const ends: number[] = [];
    const tracks = list.map((span) => {
      let track = ends.findIndex((end) => end <= span.start);
      if (track < 0) track = Math.min(ends.length, MOST - 1);
      ends[track] = Math.max(ends[track] ?? -Infinity, span.end);
      return track;
    });
    const count = Math.max(1, ends.length);
    const whole = Math.max(height, count > 1 ? count * Math.min(THIN, height) : 0);
    const first = lines.length;
    for (let track = 0; track < count; track++) lines.push({ row, top: top + (track * whole) / count, height: whole / count });
    list.forEach((span, index) => placed.push({ ...span, line: first + tracks[index]! }));
    top += whole;
  });
  return { lines, placed };
}

/** Where each row begins and ends, over all its lines. */
export function edges(lines: readonly Line[]): { top: number[]; bottom: number[] } {
  const [top, bottom]: [number[], number[]] = [[], []];
  for (const line of lines) {
    top[line.row] ??= line.top;
    bottom[line.row] = line.top + line.height;
  }
  return { top, bottom };
}

export function heightOf(lines: readonly Line[]): number {
  const last = lines[lines.length - 1];
  return last ? last.top + last.height : 0;
}

/** Index of the line at `y`; lines are in order of their top. */
export function lineAt(lines: readonly Line[], y: number): number {
  let [low, high] = [0, lines.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (lines[middle]!.top <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The shade of a weight version: newer is stronger, over the versions in sight. */
export function shade(version: number, oldest: number, newest: number): number {
  return newest > oldest ? (version - oldest) / (newest - oldest) : 1;
}

export interface Gap {
  row: number;
  start: number;
  end: number;
}

/**
 * Where rows did nothing. Between two of a row's spans it was idle; before its first and after its last in sight only if
 * its idle share, as the server counted it, is too great to be explained by the others.
 */
export function gaps(spans: readonly LaneSpan[], idle: readonly (number | null)[], [from, to]: readonly [number, number]): Gap[] {
  const byRow: LaneSpan[][] = idle.map(() => []);
  for (const span of spans) byRow[span.row]?.push(span);
  return byRow.flatMap((list, row) => {
    let until = from;
    const found: Gap[] = [];
    for (const { start, end } of list.sort((a, b) => a.start - b.start)) {
      if (start > until) found.push({ row, start: until, end: start });
      until = Math.max(until, end);
    }
    if (until < to) found.push({ row, start: until, end: to });
    const total = found.reduce((sum, { start, end }) => sum + end - start, 0);
    const counted = (idle[row] ?? 0) * (to - from);
    return counted >= 0.9 * total ? found : found.filter(({ start, end }) => start > from && end < to);
  });
}
