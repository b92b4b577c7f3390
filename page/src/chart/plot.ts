// What every uPlot of the page has in common: axes by unit, colours of the theme, marks and thresholds.
import uPlot from "uplot";
import { faded, paint } from "../colors";
import { clock, date, seconds, tick } from "../format";
import type { Mark } from "../api";
import type { XAxis } from "../state";

export interface Threshold {
  value: number;
  label: string;
  severity?: "warning" | "critical" | "limit";
}

/** A mark of an event at its place on the x axis. */
export interface PlacedMark {
  x: number;
  kind: Mark["kind"];
  label: string;
}

export const MARK_SIGNS: Record<Mark["kind"], string> = {
  checkpoint: "C", restart: "R", nan: "N", weights: "W", stuck: "S", profile: "P", oom: "M", error: "E", end: "■",
};
const SERIOUS = new Set<Mark["kind"]>(["nan", "stuck", "oom", "error"]);
/** What comes again and again: some of them say it. */
const USUAL = new Set<Mark["kind"]>(["checkpoint", "weights"]);
const FONT = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";

const decimal = (from: number, to: number): number[] => {
  const all: number[] = [];
  for (let power = from; power <= to; power += 1) for (const one of [1, 2, 5]) all.push(one * 10 ** power);
  return all;
};
const SECONDS = [...decimal(-9, -1), 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
const BYTES = Array.from({ length: 60 }, (_, power) => 2 ** power);
const WHOLE = decimal(0, 9);

const increments = (unit: string): number[] => (unit === "s" ? SECONDS : unit.startsWith("By") ? BYTES : decimal(-12, 12));

function timeTicks(values: readonly number[]): string[] {
  const step = (values[1] ?? 0) - (values[0] ?? 0);
  let day = "";
  return values.map((value) => {
    const today = date(value).slice(5, 10);
    const text = clock(value, step < 1000);
    const short = step >= 60_000 ? text.slice(0, 5) : text;
    const shown = today === day || day === "" ? short : today;
    day = today;
    return shown;
  });
}

export function xTicks(kind: XAxis): uPlot.Axis.DynamicValues {
  if (kind === "time") return (_, values) => timeTicks(values);
  if (kind === "elapsed") return (_, values) => values.map((value) => seconds(value));
  return (_, values) => values.map((value) => tick(value));
}

export function axes(kind: XAxis, unit: string, small: boolean, log: boolean): uPlot.Axis[] {
  const common = {
    stroke: () => paint("--muted"),
    font: FONT,
    grid: { stroke: () => paint("--grid"), width: 1 },
    ticks: { show: false },
  };
  const x: uPlot.Axis = { ...common, size: 24, gap: 4, space: 70, values: xTicks(kind), grid: { show: false } };
  if (kind !== "time") x.incrs = kind === "elapsed" ? SECONDS : WHOLE;
  const y: uPlot.Axis = {
    ...common,
    gap: 4,
    space: small ? 26 : 32,
    incrs: increments(unit),
    values: (_, values) => values.map((value) => (value === null || value === undefined ? "" : tick(value, unit))),
    size: (_, values) => Math.max(38, ...(values ?? []).map((text) => 14 + text.length * 6.2)),
  };
  if (log) y.grid = { ...common.grid, filter: (_, splits) => splits.map((one) => (Number.isInteger(Math.round(Math.log10(one) * 1e9) / 1e9) ? one : null)) };
  return [x, y];
}

/** The y range: air around lines, 0 included where sizes are compared, near thresholds in sight. */
export function yRange(zero: boolean, thresholds: () => readonly Threshold[]): uPlot.Scale.Range {
  return (_, low, high): uPlot.Range.MinMax => {
    if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    let [from, to] = [zero ? Math.min(0, low) : low, zero ? Math.max(0, high) : high];
    for (const { value } of thresholds()) {
      // A limit far above would press the curve flat; it is named in the legend instead.
      if (value > to && value <= to + 2 * Math.max(to - from, Math.abs(to) / 2)) to = value;
      if (value < from && value >= from - 2 * Math.max(to - from, Math.abs(from) / 2)) from = value;
    }
    const air = (to - from || Math.abs(to) || 1) * 0.06;
    return [zero && from === 0 ? 0 : from - air, zero && to === 0 ? 0 : to + air];
  };
}

export const logRange: uPlot.Scale.Range = (_, low, high): uPlot.Range.MinMax =>
  low !== null && high !== null && low > 0 ? uPlot.rangeLog(low / 1.1, high * 1.1, 10, false) : [0.1, 1];

function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

/** Text with a rim of the ground, so that a line below doesn't strike it through. */
function label(context: CanvasRenderingContext2D, text: string, x: number, y: number, color: string): void {
  context.setLineDash([]);
  context.lineJoin = "round";
  context.lineWidth = 3 * uPlot.pxRatio;
  context.strokeStyle = paint("--surface");
  context.strokeText(text, x, y);
  context.fillStyle = paint(color);
  context.fillText(text, x, y);
}

const thresholdColor = ({ severity }: Threshold): string => (severity === "critical" ? "--error" : severity === "limit" ? "--muted" : "--warning");

export function drawThresholds(plot: uPlot, thresholds: readonly Threshold[]): void {
  const { ctx: context, bbox } = plot;
  const ratio = uPlot.pxRatio;
  context.save();
  for (const threshold of thresholds) {
    const y = plot.valToPos(threshold.value, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    context.strokeStyle = paint(thresholdColor(threshold));
    context.lineWidth = ratio;
    context.setLineDash([6 * ratio, 4 * ratio]);
    line(context, bbox.left, y, bbox.left + bbox.width, y);
  }
  context.restore();
}

/** The thresholds that the scale doesn't reach, for the legend. */
export function hiddenThresholds(plot: uPlot, thresholds: readonly Threshold[]): string {
  const { min, max } = plot.scales.y ?? {};
  if (min === undefined || max === undefined || min === null || max === null) return "";
  const away = thresholds.filter(({ value }) => value < min || value > max);
  return away.map(({ value, label: text }) => `${text} ${value > max ? "above" : "below"}`).join(", ");
}

/** Names of the thresholds, over the curves, at the left: the newest values are at the right. */
export function nameThresholds(plot: uPlot, thresholds: readonly Threshold[]): void {
  const { ctx: context, bbox } = plot;
  const ratio = uPlot.pxRatio;
  context.save();
  context.font = `${10 * ratio}px system-ui, sans-serif`;
  context.textAlign = "left";
  for (const threshold of thresholds) {
    const y = plot.valToPos(threshold.value, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    const above = y - bbox.top > 14 * ratio;
    context.textBaseline = above ? "bottom" : "top";
    const color = thresholdColor(threshold);
    label(context, threshold.label, bbox.left + 4 * ratio, y + (above ? -2 : 3) * ratio, color === "--warning" ? "--warning-text" : color);
  }
  context.restore();
}

export function drawMarks(plot: uPlot, marks: readonly PlacedMark[]): void {
  const { ctx: context, bbox } = plot;
  const ratio = uPlot.pxRatio;
  let [drawn, taken] = [-Infinity, -Infinity];
  context.save();
  context.font = `600 ${9 * ratio}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.lineWidth = ratio;
  for (const mark of marks) {
    const x = plot.valToPos(mark.x, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    const serious = SERIOUS.has(mark.kind);
    if (USUAL.has(mark.kind)) {
      if (Math.abs(x - drawn) < 6 * ratio) continue; // one every pixel would be a curtain
      drawn = x;
    }
    const color = paint(serious ? "--error" : "--muted");
    context.strokeStyle = faded(color, 0.45);
    context.setLineDash([2 * ratio, 3 * ratio]);
    line(context, x, bbox.top, x, bbox.top + bbox.height);
    if (x - taken < 10 * ratio) continue; // letters would cover each other; the line stays
    context.fillStyle = color;
    context.fillText(MARK_SIGNS[mark.kind], x, bbox.top - ratio);
    taken = x;
  }
  context.restore();
}

/** Values that the scale has no place for: triangles at the top (NaN, infinities), ticks at the bottom (<= 0 on a log scale). */
export function drawOutside(plot: uPlot, top: readonly number[], bottom: readonly number[], color: string): void {
  const { ctx: context, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const inside = (x: number): boolean => x >= bbox.left - 1 && x <= bbox.left + bbox.width + 1;
  context.save();
  context.fillStyle = paint("--error");
  for (const value of top) {
    const x = plot.valToPos(value, "x", true);
    if (!inside(x)) continue;
    context.beginPath();
    context.moveTo(x - 4 * ratio, bbox.top + 2 * ratio);
    context.lineTo(x + 4 * ratio, bbox.top + 2 * ratio);
    context.lineTo(x, bbox.top + 9 * ratio);
    context.fill();
  }
  context.strokeStyle = paint(color);
  context.lineWidth = ratio;
  for (const value of bottom) {
    const x = plot.valToPos(value, "x", true);
    if (inside(x)) line(context, x, bbox.top + bbox.height, x, bbox.top + bbox.height - 5 * ratio);
  }
  context.restore();
}
