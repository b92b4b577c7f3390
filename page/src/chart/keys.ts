// Keys of a chart, and the ranges that they move in.
import type { ReadonlySignal, Signal } from "@preact/signals";
import type { RefObject } from "preact";
import type uPlot from "uplot";
import type { Range, XAxis } from "../state";
import type { Content } from "./chart";

/** All of x, with room where there is one point only. */
const ROOM: Record<XAxis, number> = { step: 0.5, time: 30_000, elapsed: 30 };

export function extent({ data, pad = 0 }: Content, x: XAxis): Range {
  const xs = data[0];
  const from = xs[0];
  const to = xs.at(-1);
  if (from === undefined || to === undefined) return [0, 1];
  return from === to ? [from - Math.max(pad, ROOM[x]), to + Math.max(pad, ROOM[x])] : [from - pad, to + pad];
}

/** uPlot asks for a range when data come; one that is not a range would end it. */
export function limit(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/** Moves the cursor here and in the charts that share it; uPlot's types leave out the last argument. */
function point(made: uPlot, left: number, top: number): void {
  (made.setCursor as (at: { left: number; top: number }, fire: boolean, publish: boolean) => void)({ left, top }, true, true);
}

interface Bound {
  plot: RefObject<uPlot | null>;
  zoom: () => Range | null;
  full: () => Range;
  setZoom: (range: Range | null) => void;
  open: () => ((x: number) => void) | undefined;
  locked: Signal<boolean> | ReadonlySignal<boolean>;
}

/** `range` moved or scaled within `full`; null where it is all of it. */
function within([from, to]: Range, [first, last]: Range): Range | null {
  const width = Math.min(to - from, last - first);
  const start = Math.min(Math.max(from, first), last - width);
  return start <= first && start + width >= last ? null : [start, start + width];
}

export function bindKeys({ plot, zoom, full, setZoom, open, locked }: Bound) {
  const move = (made: uPlot, by: number): void => {
    const xs = made.data[0];
    const [from, to] = zoom() ?? full();
    let index = made.cursor.idx;
    if (index === null || index === undefined) index = by > 0 ? xs.findIndex((one) => one >= from) - by : xs.findLastIndex((one) => one <= to) - by;
    index = Math.min(xs.length - 1, Math.max(0, index + by));
    const value = xs[index];
    if (value === undefined) return;
    if (value < from || value > to) {
      const shift = value < from ? value - from : value - to;
      setZoom(within([from + shift, to + shift], full()));
    }
    point(made, made.valToPos(value, "x"), made.bbox.height / 4);
  };
  const scale = (made: uPlot, factor: number): void => {
    const [from, to] = zoom() ?? full();
    const index = made.cursor.idx;
    const at = (index == null ? undefined : made.data[0][index]) ?? (from + to) / 2;
    setZoom(within([at - (at - from) * factor, at + (to - at) * factor], full()));
  };
  const pan = (share: number): void => {
    const [from, to] = zoom() ?? full();
    const by = (to - from) * share;
    setZoom(within([from + by, to + by], full()));
  };
  return (event: KeyboardEvent): void => {
    const made = plot.current;
    if (!made || event.ctrlKey || event.metaKey || event.altKey) return;
    const stride = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowLeft") move(made, -stride);
    else if (event.key === "ArrowRight") move(made, stride);
    else if (event.key === "+" || event.key === "=") scale(made, 0.5);
    else if (event.key === "-" || event.key === "_") scale(made, 2);
    else if (event.key === "a") pan(-0.25);
    else if (event.key === "d") pan(0.25);
    else if (event.key === "f") setZoom(null);
    else if (event.key === "Enter") act(made, open());
    else if (event.key === "Escape" && (locked.value || made.cursor.idx != null || zoom())) leave(made, locked.value, zoom() !== null, setZoom);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

function act(made: uPlot, open: ((x: number) => void) | undefined): void {
  const index = made.cursor.idx;
  const value = index == null ? undefined : made.data[0][index];
  if (value !== undefined && open) open(value);
  else lock(made, value !== undefined);
}

function lock(made: uPlot, on: boolean): void {
  (made.cursor as { _lock?: boolean })._lock = on;
  point(made, made.cursor.left ?? -10, made.cursor.top ?? -10);
}

function leave(made: uPlot, locked: boolean, zoomed: boolean, setZoom: (range: Range | null) => void): void {
  if (locked) lock(made, false);
  else if (zoomed) setZoom(null);
  point(made, -10, -10);
}
