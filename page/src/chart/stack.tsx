// Stacked bars over steps: seconds of phases, shares of groups. Starts at 0; what is absent adds nothing and is said.
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { hatch, paint } from "../colors";
import { format } from "../format";
import { Chart, type ChartProps, type Content } from "./chart";

export interface Layer {
  label: string;
  /** null: not known for that x; it adds nothing and shows as "—". */
  ys: readonly (number | null)[];
  color: string;
  hatched?: boolean;
}

export interface StackChartProps extends ChartProps {
  xs: readonly number[];
  /** From the bottom up. */
  layers: readonly Layer[];
  /** Width of a bar in x: the width of a bin. */
  width?: number;
  /** As shares of the sum. */
  shares?: boolean;
  totalLabel?: string;
}

function contentOf({ xs, layers, width = 1, shares = false, unit, totalLabel = "all" }: StackChartProps): Content {
  const known = xs.map((_, index) => layers.some((layer) => layer.ys[index] !== null));
  const totals = xs.map((_, index) => layers.reduce((sum, layer) => sum + (layer.ys[index] ?? 0), 0));
  const sums: number[] = xs.map(() => 0);
  const tops = layers.map((layer) =>
    xs.map((_, index) => {
      sums[index] = (sums[index] ?? 0) + (layer.ys[index] ?? 0);
      if (!known[index]) return null;
      return shares ? (sums[index] ?? 0) / (totals[index] || 1) : (sums[index] ?? 0);
    }),
  );
  const bars = uPlot.paths.bars?.({ size: [0.86, 60], align: 0 });
  // The highest sum is drawn first, each lower one over it.
  const order = layers.map((_, index) => layers.length - 1 - index);
  const series = order.map((index): uPlot.Series => {
    const layer = layers[index] as Layer;
    return {
      label: layer.label,
      width: 0,
      ...(bars ? { paths: bars } : {}),
      points: { show: false },
      fill: (u) => (layer.hatched ? (hatch(u.ctx, layer.color, "--surface") as unknown as string) : paint(layer.color)),
    };
  });
  const text = (values: readonly (number | null)[]) => (index: number | null) => {
    const place = index ?? xs.length - 1;
    const value = values[place] ?? null;
    const part = totals[place] && value !== null && values !== totals ? ` (${Math.round((100 * value) / (totals[place] ?? 1))} %)` : "";
    return `${format(value, unit)}${part}`;
  };
  return {
    data: [xs as number[], ...order.map((index) => tops[index] ?? [])] as uPlot.AlignedData,
    series,
    legend: [
      { label: totalLabel, color: "transparent", kind: "none", value: text(totals) },
      ...layers.map((layer) => ({ label: layer.label, color: layer.color, kind: layer.hatched ? ("hatch" as const) : ("bar" as const), value: text(layer.ys) })),
    ],
    pad: width / 2,
  };
}

export function StackChart(props: StackChartProps) {
  const { xs, layers, shares = false } = props;
  const content = useMemo(() => contentOf(props), [xs, layers, shares, props.unit]);
  const shape = JSON.stringify([layers.map((one) => [one.label, one.color]), shares]);
  return <Chart {...props} zero unit={shares ? "1" : props.unit} {...(shares ? { yLimits: [0, 1] as const } : {})} content={content} shape={shape} />;
}
