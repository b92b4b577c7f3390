// A time axis of round distances from the run's start, as text that can be read and copied.
import type { JSX } from "preact";
import { ticks, type Range } from "./range";

export interface TimeAxisProps {
  range: Range;
  origin: number;
  /** CSS pixels of the picture below it, and of the labels left of that. */
  width: number;
  indent?: number;
}

export function TimeAxis({ range, origin, width, indent = 0 }: TimeAxisProps): JSX.Element {
  const span = range[1] - range[0] || 1;
  return (
    <div class="time-axis" aria-hidden="true" style={{ marginLeft: `${indent}px` }}>
      {ticks(range, Math.max(1, width / 110), origin).map(({ at, label }) => (
        <span key={at} style={{ left: `${((at - range[0]) / span) * width}px` }}>
          {label}
        </span>
      ))}
    </div>
  );
}
