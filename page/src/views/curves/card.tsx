// One chart of the wall: a key or a family of one run, or the same of several runs over each other.
import { useMemo } from "preact/hooks";
import type { Curve } from "../../api";
import { Frame } from "../../chart/frame";
import { LineChart, type Band, type Line } from "../../chart/line";
import type { PlacedMark } from "../../chart/plot";
import { smooth } from "../../chart/smooth";
import { runDashed, runVar } from "../../colors";
import { oddText, useCurves } from "../../curves";
import { format, unitName } from "../../format";
import { param, pin, smoothing, xAxis, type Range } from "../../state";
import { tableOf } from "../overview/learning";
import type { CardKeys } from "./families";

interface CardProps {
  card: CardKeys;
  /** The page's run first. */
  runs: readonly string[];
  marks: readonly PlacedMark[];
  zoom: { range?: Range | null; onRange?: (range: Range | null) => void };
  pinned: boolean;
  csv: string | null;
  height?: number;
}

/** Eight at most: hooks are called for each place, filled or not. */
const PLACES = [0, 1, 2, 3, 4, 5, 6, 7];

export function useRunsCurves(runs: readonly string[], keys: readonly string[]) {
  return PLACES.map((place) => {
    const run = runs[place];
    return { run, ...useCurves(run ?? "", run === undefined ? [] : keys, 600) };
  }).filter((one) => one.run !== undefined);
}

function linesOf(curve: Curve, label: string, color: string, dashed: boolean, weight: number, alone: boolean): Line[] {
  const { xs, ys, nonfinite } = curve;
  const style = dashed ? { style: "dash" as const } : {};
  if (weight === 0) return [{ label, xs, ys, color, nonfinite, title: `${label}: ${curve.key}`, ...style }];
  return [
    { label: `${label}, raw`, xs, ys, color, style: "faint", silent: !alone },
    { label: alone ? `smoothed ${weight}` : label, xs, ys: smooth(ys, weight), color, nonfinite, title: `${label}: ${curve.key}`, ...style },
  ];
}

export function Card({ card, runs, marks, zoom, pinned, csv, height = 158 }: CardProps) {
  const alone = runs.length === 1;
  const { main, high, low } = card;
  const answers = useRunsCurves(runs, alone ? card.keys.map((one) => one.key) : [main.key]);
  const weight = smoothing.value;
  const curves = answers.map((one) => one.of(main.key));
  const lines = useMemo(
    () => curves.flatMap((curve, index) => (curve ? linesOf(curve, alone ? (main.statistic ?? "value") : (runs[index] ?? ""), runVar(index), runDashed(index), weight, alone) : [])),
    [...PLACES.map((place) => curves[place]), weight, alone],
  );
  const first = answers[0];
  const [top, bottom] = [first?.of(high?.key), first?.of(low?.key)];
  const bands: Band[] = alone && top && bottom ? [{ label: "min to max", low: bottom, high: top, color: "var(--run-0)" }] : [];
  // What is no band (a max without a min, a deviation) is a line of its own.
  const rest = alone ? card.keys.filter((one) => one !== main && !(bands.length && (one === high || one === low))) : [];
  const extra: Line[] = rest.flatMap((one, index) => {
    const curve = first?.of(one.key);
    return curve ? [{ label: one.statistic ?? one.key, xs: curve.xs, ys: curve.ys, color: `var(--run-${(index + 3) % 8})`, style: "dash" as const, nonfinite: curve.nonfinite }] : [];
  });
  const shown = curves.find((one) => one !== undefined);
  const unit = shown?.unit ?? main.unit;
  const odd = oddText(curves[0]);
  const missing = answers.filter((one, index) => one.value && (curves[index]?.points ?? 0) === 0).map((one) => one.run);
  return (
    <Frame
      title={card.name.includes("/") ? card.name.slice(card.name.indexOf("/") + 1) : card.name}
      question={card.name}
      note={
        <>
          {unitName(unit)}
          {odd && <span class="badge error">▼ {odd}</span>}
          {missing.length > 0 && !alone && <span class="badge" title={missing.join(", ")}>not logged by {missing.length}</span>}
        </>
      }
      answer={{ ...(first ?? { value: undefined, error: undefined, loading: true, stale: false, retry: () => undefined }), value: shown }}
      height={height + 18}
      table={() => tableOf(alone ? card.keys.map((one) => first?.of(one.key)) : curves.map((one, index) => one && { ...one, key: runs[index] ?? one.key }))}
      actions={
        <>
          <button type="button" class="quiet small" aria-pressed={pinned} title={pinned ? "Take it from the top" : "Pin it to the top (kept in the address)"} onClick={() => pin(card.name, !pinned)}>
            {pinned ? "Unpin" : "Pin"}
          </button>
          {csv && (
            <a class="small" href={csv} download title="step, time and values exactly as logged">
              CSV
            </a>
          )}
        </>
      }
    >
      <LineChart
        label={`${card.name} by ${xAxis.value}, now ${format(shown?.ys.findLast((one) => one !== null), unit)}${odd ? `, ${odd}` : ""}.`}
        x={xAxis.value}
        unit={unit}
        height={height}
        log={param("y") === "log"}
        lines={[...lines, ...extra]}
        bands={bands}
        marks={marks}
        {...zoom}
      />
    </Frame>
  );
}
