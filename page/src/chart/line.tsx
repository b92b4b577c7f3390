// Lines over steps or time: gaps stay gaps, spread as a band, what a scale can't show is marked at its edge.
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { faded, paint } from "../colors";
import { ABSENT, format } from "../format";
import { Chart, type ChartProps, type Content } from "./chart";
import type { XAxis } from "../state";
import type { LegendItem } from "./legend";

export interface Line {
  label: string;
  xs: readonly number[];
  /** null is a gap. */
  ys: readonly (number | null)[];
  /** A css colour or variable; the text's colour where absent. */
  color?: string;
  style?: "line" | "dash" | "dots" | "faint";
  /** (x, "NaN" | "+Inf" | "-Inf"): marked at the top. */
  nonfinite?: readonly (readonly [number, string])[];
  title?: string;
  /** Not in the legend: another line stands for it. */
  silent?: boolean;
  /** Another unit's text for the legend; the axis has the chart's. */
  unit?: string;
}

/** Spread around a line: the least and the most. */
export interface Band {
  label: string;
  low: Pick<Line, "xs" | "ys">;
  high: Pick<Line, "xs" | "ys">;
  color?: string;
}

export interface LineChartProps extends ChartProps {
  lines: readonly Line[];
  bands?: readonly Band[];
}

type Ys = (number | null | undefined)[];

/** Steps up to which no curve is reduced: one that has none at a step was not logged there. */
const WHOLE = 1000;

/** The value of a line at an index of the joined data: its own nearest, no further than a hundredth of all. */
function nearest(ys: Ys, index: number, x: XAxis): number | null {
  const reach = x === "step" && ys.length <= WHOLE ? 0 : Math.max(1, Math.ceil(ys.length / 100));
  for (let by = 0; by <= reach; by += 1) {
    const value = ys[index - by] !== undefined ? ys[index - by] : ys[index + by];
    if (value !== undefined) return value;
  }
  return null;
}

const newest = (ys: Ys): number | null => ys.findLast((value) => value !== null && value !== undefined) ?? null;

/** Points with a gap on both sides: without a dot nobody would see them. */
function lone(ys: Ys): number[] {
  const defined = ys.flatMap((value, index) => (value === undefined ? [] : [index]));
  return defined.filter((index, place) => {
    const [before, after] = [defined[place - 1], defined[place + 1]];
    return ys[index] !== null && (before === undefined || ys[before] === null) && (after === undefined || ys[after] === null);
  });
}

function seriesOf(line: Line, color: string): uPlot.Series {
  const dots = line.style === "dots";
  return {
    label: line.label,
    stroke: () => (line.style === "faint" ? faded(color, 0.35) : paint(color)),
    width: line.style === "faint" ? 1 : 1.5,
    ...(line.style === "dash" ? { dash: [5, 4] } : {}),
    ...(dots ? { dash: [2, 4], width: 1 } : {}),
    points: {
      size: dots ? 8 : 4,
      width: dots ? 1.5 : 1,
      fill: () => (line.style === "faint" ? faded(color, 0.35) : paint(dots ? "--surface" : color)),
      stroke: () => (line.style === "faint" ? faded(color, 0.35) : paint(color)),
      ...(dots
        ? { show: true }
        : { filter: (u: uPlot, index: number, shown: boolean) => (shown ? null : lone(u.data[index] as Ys)) as number[] }),
    },
  };
}

function contentOf(lines: readonly Line[], bands: readonly Band[], x: XAxis, unit: string, log: boolean): Content {
  const all = [...bands.flatMap((band) => [band.high, band.low]), ...lines];
  const same = all.every((one) => one.xs === all[0]?.xs);
  const joined = (
    same ? [all[0]?.xs ?? [], ...all.map((one) => one.ys)] : uPlot.join(all.map((one) => [one.xs, one.ys] as unknown as uPlot.AlignedData))
  ) as [number[], ...Ys[]];
  const logged = log && joined.slice(1).some((ys) => (ys as Ys).some((value) => value != null && value > 0));
  const data = logged
    ? ([joined[0], ...joined.slice(1).map((ys) => (ys as Ys).map((value) => (value != null && value <= 0 ? null : value)))] as uPlot.AlignedData)
    : (joined as uPlot.AlignedData);
  const color = (index: number): string => lines[index]?.color ?? "--accent";
  const text = (place: number, of: string) => (index: number | null) => {
    const ys = joined[place + 1] as Ys | undefined;
    return ys === undefined ? ABSENT : format(index === null ? newest(ys) : nearest(ys, index, x), of);
  };
  const legend: LegendItem[] = lines.flatMap((line, index): LegendItem[] => {
    if (line.silent) return [];
    const value = text(2 * bands.length + index, line.unit ?? unit);
    const odd = new Map(line.nonfinite ?? []);
    const end = line.nonfinite?.at(-1);
    // The latest value may be no number: an older one in its place would hide that.
    const lastOdd = end && end[0] >= (line.xs[line.ys.findLastIndex((one) => one !== null)] ?? -Infinity) ? end[1] : null;
    const item: LegendItem = {
      label: line.label,
      color: color(index),
      kind: line.style === "dots" ? "dots" : line.style === "dash" ? "dash" : line.style === "faint" ? "none" : "line",
      value: (at) => (at === null ? (lastOdd ?? value(at)) : (odd.get(joined[0][at] ?? NaN) ?? value(at))),
      ...(line.title ? { title: line.title } : {}),
    };
    return [item];
  });
  bands.forEach((band, index) => {
    const [high, low] = [text(2 * index, unit), text(2 * index + 1, unit)];
    legend.push({ label: band.label, color: band.color ?? color(0), kind: "band", value: (at) => `${low(at)} to ${high(at)}` });
  });
  const edge: uPlot.Series = { stroke: "transparent", width: 1, points: { show: false } };
  return {
    data,
    series: [...bands.flatMap(() => [edge, edge]), ...lines.map((line, index) => seriesOf(line, color(index)))],
    bands: bands.map((band, index) => ({ series: [2 * index + 1, 2 * index + 2] as [number, number], fill: () => faded(band.color ?? color(0), 0.12) })),
    legend,
    outside: lines.map((line, index) => ({
      top: (line.nonfinite ?? []).map(([x]) => x),
      bottom: logged ? line.xs.filter((_, place) => (line.ys[place] ?? 1) <= 0) : [],
      color: color(index),
    })),
  };
}

export function LineChart({ lines, bands = [], ...props }: LineChartProps) {
  const log = props.log === true && lines.some((line) => line.ys.some((value) => value !== null && value > 0));
  const parts = [...lines, ...bands].flatMap((one) => ("ys" in one ? [one.ys, one.color, one.style] : [one.low.ys, one.high.ys]));
  const content = useMemo(() => contentOf(lines, bands, props.x, props.unit, log), [...fixed(parts), props.x, props.unit, log]);
  const shape = JSON.stringify([lines.map((one) => [one.label, one.color, one.style]), bands.map((one) => [one.label, one.color])]);
  return <Chart {...props} log={log} content={content} shape={shape} />;
}

/** Hooks compare lists of one length: the parts of a chart are compared as one thing that changes when any does. */
function fixed(parts: readonly unknown[]): [unknown] {
  let numbers = parts.length;
  for (const part of parts) numbers = (numbers * 31 + identity(part)) % 2147483647;
  return [numbers];
}
const identities = new WeakMap<object, number>();
let given = 0;
function identity(part: unknown): number {
  if (typeof part === "object" && part !== null) {
    if (!identities.has(part)) identities.set(part, (given += 1));
    return identities.get(part) ?? 0;
  }
  return [...String(part)].reduce((sum, letter) => (sum * 33 + letter.charCodeAt(0)) % 1000003, 7);
}
