// One key of several runs: over each other, and below the difference to the first.
import { useMemo } from "preact/hooks";
import type { Curve } from "../../api";
import { Frame } from "../../chart/frame";
import { LineChart, type Line } from "../../chart/line";
import { smooth } from "../../chart/smooth";
import { runVar } from "../../colors";
import { format, unitName } from "../../format";
import { smoothing, xAxis, type Range } from "../../state";
import { useRunsCurves } from "../curves/card";
import type { CardKeys } from "../curves/families";
import { tableOf } from "../overview/learning";
import { difference, spread } from "./difference";

const PLACES = [0, 1, 2, 3, 4, 5, 6, 7];
const ZERO = [{ value: 0, label: "no difference", severity: "limit" as const }];

interface OverlayProps {
  card: CardKeys;
  runs: readonly string[];
  spread: boolean;
  zoom: { range?: Range | null; onRange?: (range: Range | null) => void };
  onRemove: () => void;
}

export function Overlay({ card, runs, spread: wantSpread, zoom, onRemove }: OverlayProps) {
  const answers = useRunsCurves(runs, [card.main.key]);
  const curves = answers.map((one) => one.of(card.main.key));
  const weight = smoothing.value;
  const x = xAxis.value;
  const asSpread = wantSpread && x === "step"; // by time no two runs have a value at one place
  const held = PLACES.map((place) => curves[place]);
  const lines = useMemo<Line[]>(
    () =>
      curves.flatMap((curve, index): Line[] =>
        curve ? [{ label: runs[index] ?? "", xs: curve.xs, ys: weight ? smooth(curve.ys, weight) : curve.ys, color: runVar(index), nonfinite: curve.nonfinite }] : [],
      ),
    [...held, weight],
  );
  const together = useMemo(() => (asSpread ? spread(curves.filter((one): one is Curve => one !== undefined)) : null), [...held, asSpread]);
  // By wall clock two runs share no place: a difference would be made up.
  const differences = useMemo<Line[]>(() => {
    const [base] = curves;
    if (!base || x !== "step") return [];
    return curves.slice(1).flatMap((curve, index): Line[] => {
      if (!curve) return [];
      const { xs, ys } = difference(base, curve);
      return xs.length ? [{ label: `${runs[index + 1]} − first`, xs, ys: weight ? smooth(ys, weight) : ys, color: runVar(index + 1) }] : [];
    });
  }, [...held, weight, x]);
  const xs = curves.flatMap((one) => (one?.xs.length ? [one.xs[0] ?? 0, one.xs.at(-1) ?? 0] : []));
  const full: Range | undefined = xs.length && Math.min(...xs) < Math.max(...xs) ? [Math.min(...xs), Math.max(...xs)] : undefined;
  const shown = curves.find((one) => one !== undefined);
  const unit = shown?.unit ?? card.main.unit;
  const missing = answers.filter((one, index) => one.value && (curves[index]?.points ?? 0) === 0).map((one) => one.run ?? "");
  const first = answers[0];
  return (
    <Frame
      title={card.main.key}
      note={`${unitName(unit)}${weight ? ` · smoothed ${weight}` : ""}${missing.length ? ` · not logged by ${missing.join(", ")}` : ""}`}
      answer={{ ...(first ?? { error: undefined, loading: true, stale: false, retry: () => undefined }), value: shown }}
      height={270}
      table={() => tableOf(curves.map((one, index) => one && { ...one, key: runs[index] ?? one.key }))}
      actions={
        <button type="button" class="quiet small" aria-label={`Take ${card.main.key} away`} onClick={onRemove}>
          ×
        </button>
      }
    >
      <LineChart
        label={`${card.main.key} of ${runs.length} runs by ${x}: ${lines.map((one) => `${one.label} ${format(one.ys.findLast((value) => value !== null), unit)}`).join(", ")}.`}
        x={x}
        unit={unit}
        height={150}
        lines={together ? [{ label: `median of up to ${together.most}`, ...together.median, color: runVar(0) }] : lines}
        bands={together ? [{ label: "min to max", low: together.low, high: together.high, color: runVar(0) }] : []}
        full={full}
        {...zoom}
      />
      {differences.length > 0 && !together && (
        <LineChart label={`Difference of ${card.main.key} to the first run by step.`} x={x} unit={unit} height={90} lines={differences} thresholds={ZERO} full={full} {...zoom} />
      )}
    </Frame>
  );
}
