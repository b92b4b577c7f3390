// Which x axis the page's curves have.
import { isReport } from "../client";
import { adjust, xAxis, type XAxis } from "../state";

const NAMES: Record<XAxis, string> = { step: "Step", time: "Time", elapsed: "Elapsed" };

/** A report offers the axes whose curves it holds: `/curves` is by step, others name theirs (`/curves?x=time`). */
const offered = Object.entries(NAMES).filter(
  ([name]) => !isReport || name === "step" || Object.keys(window.__answers ?? {}).some((url) => url.includes(`/curves?x=${name}`)),
);

export function AxisChoice() {
  if (offered.length < 2) return null;
  return (
    <Segments
      label="x axis"
      options={offered}
      value={xAxis.value}
      onChoose={(name) => adjust({ x: name === "step" ? null : name })}
    />
  );
}

interface SegmentsProps {
  label: string;
  /** (value, text) pairs. */
  options: readonly (readonly [string, string])[];
  value: string;
  onChoose: (value: string) => void;
}

/** A few choices of which one holds. */
export function Segments({ label, options, value, onChoose }: SegmentsProps) {
  return (
    <span class="segments" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button key={name} type="button" class="small" aria-pressed={name === value} onClick={() => onChoose(name)}>
          {text}
        </button>
      ))}
    </span>
  );
}
