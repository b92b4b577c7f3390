// The matrix of a timeline: decoded, cut to some of its rows, and summed up to a fleet.

import type { Lane, Timeline } from "../../api";
import { decodeCells } from "../../chart/painter";

/** Above this many lanes the fleet comes first. */
export const MANY = 64;

export type Order = "gap" | "idle" | "errors";

/** The cells of an answer; null where it has spans instead. The same object for the same answer. */
export function cellsOf(data: Timeline): Uint8Array | null {
  if (data.cells === null) return null;
  let cells = decoded.get(data);
  if (!cells) decoded.set(data, (cells = decodeCells(data.cells)));
  return cells;
}
const decoded = new WeakMap<Timeline, Uint8Array>();

/** The rows named, in that order. */
export function pick(cells: Uint8Array, width: number, rows: readonly number[]): Uint8Array {
  const picked = new Uint8Array(width * rows.length);
  rows.forEach((row, index) => picked.set(cells.subarray(row * width, (row + 1) * width), index * width));
  return picked;
}

/** For each column, how many of the rows are in each state. */
export function composition(cells: Uint8Array, width: number, rows: readonly number[], states: number): number[][] {
  const columns = Array.from({ length: width }, () => new Array<number>(states).fill(0));
  for (const row of rows) {
    for (let column = 0; column < width; column++) {
      const state = cells[row * width + column]!;
      if (state < states) columns[column]![state]!++;
    }
  }
  return columns;
}

/** Cells of an answer that has spans: in each column the span that began last, as the innermost is what is done. */
export function drawn({ spans, lanes, states, width, from, to }: Timeline): Uint8Array {
  const cells = new Uint8Array(width * lanes.length);
  const column = (time: number): number => Math.floor(((time - from) / (to - from)) * width);
  for (const { row, start, end, state } of [...(spans ?? [])].sort((a, b) => a.start - b.start)) {
    const first = Math.max(0, column(start));
    const past = Math.min(width, Math.max(first + 1, column(end)));
    if (first < width && past > 0) cells.fill(Math.max(0, states.indexOf(state)), row * width + first, row * width + past);
  }
  return cells;
}

/** Shares of the rows in each state, by column: the server's where it counted all lanes, else from cells or spans. */
export function fleetOf(data: Timeline, rows: readonly number[]): number[][] {
  if (data.composition && rows.length === data.lanes.length) return data.composition.states;
  const cells = cellsOf(data) ?? (data.spans && drawn(data));
  if (cells && rows.length) return composition(cells, data.width, rows, data.states.length);
  return [];
}

/** The `count` worst rows by what is asked. Ties keep the lanes' order, so that a refresh moves nothing. */
export function worst(lanes: readonly Lane[], among: readonly number[], order: Order, count: number): number[] {
  const value = (row: number): number => {
    const lane = lanes[row]!;
    return (order === "gap" ? lane.gap_s : order === "idle" ? lane.idle : lane.errors) ?? -1;
  };
  return [...among].sort((a, b) => value(b) - value(a) || a - b).slice(0, count);
}

/** Height of a row in CSS pixels: labels, then bands, then texture. */
export function rowHeight(rows: number): number {
  if (rows <= 24) return 24;
  if (rows <= 40) return 16;
  if (rows <= 128) return 8;
  if (rows <= 256) return 3;
  return rows <= 512 ? 2 : 1;
}

/** The run of columns of one state round `column`: what a tooltip says of a cell. */
export function extent(cells: Uint8Array, width: number, row: number, column: number): [number, number] {
  const state = cells[row * width + column];
  let [first, last] = [column, column];
  while (first > 0 && cells[row * width + first - 1] === state) first--;
  while (last < width - 1 && cells[row * width + last + 1] === state) last++;
  return [first, last];
}
