// Is it learning, is the policy moving safely, do trainer and engine agree?
import type { Curve, Curves } from "../../api";
import type { Answer } from "../../client";
import { Frame } from "../../chart/frame";
import { LineChart, type Line } from "../../chart/line";
import type { PlacedMark, Threshold } from "../../chart/plot";
import { smooth } from "../../chart/smooth";
import type { TableData } from "../../chart/table";
import { oddText } from "../../curves";
import { format, xText } from "../../format";
import { xAxis, type Range } from "../../state";
import { useMemo } from "preact/hooks";
import type { Chosen } from "./keys";

export interface Shared {
  run: string;
  curves: Answer<Curves> & { of: (key: string | null | undefined) => Curve | undefined };
  /** Whose states the frames show; undefined where nothing is asked. */
  answer: Answer<Curves> | undefined;
  marks: readonly PlacedMark[];
  keys: Chosen;
  /** Whether the run's keys have been read: before that nothing is known to be absent. */
  known: boolean;
  zoom: { range?: Range | null; onRange?: (range: Range | null) => void };
}

const SMOOTHING = 0.8;
const NOISY = 40; // fewer points than this are shown as they are

export function tableOf(curves: readonly (Curve | undefined)[]): TableData {
  const there = curves.filter((one) => one !== undefined);
  const x = xAxis.value;
  const rows = new Map<number, (number | string | null)[]>();
  there.forEach((curve, place) =>
    curve.xs.forEach((at, index) => {
      const row = rows.get(at) ?? [xText(at, x), ...there.map(() => null)];
      row[place + 1] = curve.ys[index] ?? null;
      rows.set(at, row);
    }),
  );
  return { columns: [x, ...there.map((one) => one.key)], rows: [...rows.entries()].sort(([a], [b]) => a - b).map(([, row]) => row) };
}

const sourceOf = (key: string): string => key.replace(/^val-core\//, "").replace(/^val\//, "");

export function Learning({ curves, answer, marks, keys, known, zoom }: Shared) {
  const main = curves.of(keys.main?.key);
  const [high, low] = [curves.of(keys.high), curves.of(keys.low)];
  const validation = keys.validation.map((one) => curves.of(one.key));
  const smoothed = useMemo(() => (main && main.xs.length > NOISY ? smooth(main.ys, SMOOTHING) : null), [main]);
  const lines: Line[] = [];
  if (main) {
    const { xs, ys, nonfinite } = main;
    if (smoothed) lines.push({ label: "each step", xs, ys, color: "var(--run-0)", style: "faint" });
    lines.push({ label: smoothed ? `mean, smoothed ${SMOOTHING}` : "mean", xs, ys: smoothed ?? ys, color: "var(--run-0)", nonfinite, title: main.key });
  }
  validation.forEach((one, index) => {
    if (one) lines.push({ label: sourceOf(one.key), xs: one.xs, ys: one.ys, color: `var(--run-${index + 1})`, style: "dots", title: one.key });
  });
  const loss = keys.main !== null && /loss/.test(keys.main.key);
  const odd = oddText(main);
  return (
    <Frame
      title="Is it learning?"
      good={loss ? "Good: the loss falls, on training and on validation." : "Good: reward rises on training, and validation (rings) rises with it."}
      note={keys.main ? `${keys.main.key}${odd ? ` · ${odd}` : ""}` : null}
      answer={answer}
      height={240}
      empty={known && lines.length === 0 && !curves.loading ? "No reward or loss has been logged yet; the first comes with the first step's end." : null}
      table={() => tableOf([main, high, low, ...validation])}
    >
      {lines.length > 0 && (
        <LineChart
          label={`${keys.main?.key ?? "Validation"} by ${xAxis.value}, now ${format(main?.ys.findLast((one) => one !== null), main?.unit)}.`}
          x={xAxis.value}
          unit={main?.unit ?? ""}
          height={200}
          lines={lines}
          bands={high && low ? [{ label: "min to max", low, high, color: "var(--run-0)" }] : []}
          marks={marks}
          {...zoom}
        />
      )}
    </Frame>
  );
}

interface Small {
  title: string;
  key: string | null;
  log?: boolean;
  good: string;
  thresholds: (ys: readonly number[]) => Threshold[];
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/** The lines are those of the alert rules. */
const smalls = (keys: Chosen): Small[] => [
  { title: "Entropy", key: keys.entropy, good: "falls slowly, stays above a tenth of its maximum", thresholds: (ys) => (ys.length > 5 ? [{ value: 0.1 * Math.max(...ys), label: "a tenth of its maximum" }] : []) },
  { title: "KL of an update", key: keys.kl, good: "stays under 0.1", thresholds: () => [{ value: 0.1, label: "0.1", severity: "critical" }] },
  { title: "Clipped share", key: keys.clip, good: "stays under 30 %", thresholds: () => [{ value: 0.3, label: "30 %" }] },
  { title: "Gradient norm", key: keys.gradient, log: true, good: "no spike over ten times its median", thresholds: (ys) => (ys.length > 5 ? [{ value: 10 * median(ys), label: "10 × median" }] : []) },
];

/** From the first to the last x of all: charts beside each other line up. */
function fullOf(curves: readonly (Curve | undefined)[]): Range | undefined {
  const ends = curves.flatMap((one) => (one?.xs.length ? [one.xs[0] ?? 0, one.xs.at(-1) ?? 0] : []));
  const [from, to] = [Math.min(...ends), Math.max(...ends)];
  return from < to ? [from, to] : undefined;
}

export function Safety({ curves, answer, marks, keys, known, zoom }: Shared) {
  const all = smalls(keys).filter((one) => one.key !== null);
  const chosen = all.map((one) => curves.of(one.key));
  return (
    <Frame
      title="Is the policy moving safely?"
      good={`Good: ${smalls(keys).map((one) => `${one.title.toLowerCase()} ${one.good}`).join("; ")}.`}
      answer={answer}
      height={270}
      empty={known && all.length === 0 ? "No entropy, KL, clip fraction or gradient norm has been logged." : null}
      table={() => tableOf(chosen)}
    >
      <div class="smalls">
        {all.map((one, index) => {
          const curve = chosen[index];
          return curve && <SmallChart key={one.title} small={one} curve={curve} marks={marks} zoom={zoom} full={fullOf(chosen)} />;
        })}
      </div>
    </Frame>
  );
}

function SmallChart({ small, curve, marks, zoom, full }: { small: Small; curve: Curve; marks: readonly PlacedMark[]; zoom: Shared["zoom"]; full: Range | undefined }) {
  const thresholds = useMemo(() => small.thresholds(curve.ys.filter((one): one is number => one !== null)), [curve]);
  return (
    <LineChart
      label={`${small.title} by ${xAxis.value}${oddText(curve) ? `, ${oddText(curve)}` : ""}.`}
      x={xAxis.value}
      unit={curve.unit}
      height={104}
      log={small.log === true}
      lines={[{ label: small.title, xs: curve.xs, ys: curve.ys, color: "var(--run-0)", nonfinite: curve.nonfinite, title: curve.key }]}
      thresholds={thresholds}
      marks={marks}
      full={full}
      {...zoom}
    />
  );
}

const AGREEMENT: readonly Threshold[] = [
  { value: 0.005, label: "0.005 warning" },
  { value: 0.01, label: "0.01 critical", severity: "critical" },
];
const CORRELATION: readonly Threshold[] = [{ value: 0.99, label: "0.99" }];

export function Agreement({ curves, answer, marks, keys, known, zoom }: Shared) {
  const [difference, correlation] = [curves.of(keys.difference), curves.of(keys.correlation)];
  const chart = (curve: Curve | undefined, label: string, thresholds: readonly Threshold[], height: number) =>
    curve && (
      <LineChart
        label={`${label} by ${xAxis.value}.`}
        x={xAxis.value}
        unit={curve.unit}
        height={height}
        lines={[{ label, xs: curve.xs, ys: curve.ys, color: "var(--run-0)", nonfinite: curve.nonfinite, title: curve.key }]}
        thresholds={thresholds}
        marks={marks}
        {...zoom}
      />
    );
  return (
    <Frame
      title="Do trainer and engine agree?"
      good="Good: the mean difference of token probabilities stays under 0.005, their correlation near 1."
      answer={answer}
      height={270}
      empty={known && keys.difference === null ? "verl logs it with actor_rollout_ref.rollout.calculate_log_probs=True; this run doesn't." : null}
      table={() => tableOf([difference, correlation])}
    >
      {chart(difference, "Mean difference of probabilities", AGREEMENT, 130)}
      {chart(correlation, "Pearson correlation", CORRELATION, 100)}
    </Frame>
  );
}
