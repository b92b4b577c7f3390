// The line above a chart: what each mark is, and its value at the cursor (else its latest).
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { xText } from "../format";
import type { XAxis } from "../state";
import { MARK_SIGNS, type PlacedMark } from "./plot";

export interface LegendItem {
  label: string;
  /** A css colour or variable. */
  color: string;
  kind: "line" | "dash" | "dots" | "band" | "bar" | "hatch" | "none";
  /** The text at an index of the joined data; null asks for the latest. */
  value: (index: number | null) => string;
  title?: string;
}

interface Props {
  items: readonly LegendItem[];
  index: ReadonlySignal<number | null>;
  locked: ReadonlySignal<boolean>;
  x: XAxis;
  at: (index: number) => number | undefined;
  marks: readonly PlacedMark[];
  onOpen?: ((x: number) => void) | undefined;
  /** Thresholds that are off the scale. */
  outside: ReadonlySignal<string>;
  children?: ComponentChildren;
}

export function Legend({ items, index, locked, x, at, marks, onOpen, outside, children }: Props) {
  const place = index.value;
  const value = place === null ? undefined : at(place);
  const near = value === undefined ? [] : marks.filter((mark) => Math.abs(mark.x - value) < (x === "step" ? 0.5 : x === "time" ? 500 : 0.5));
  return (
    <p class="legend">
      <span class="at">
        {value === undefined ? "latest" : xText(value, x)}
        {locked.value ? " (pinned)" : ""}
      </span>
      {items.map((item) => (
        <span key={item.label} class="item" title={item.title ?? item.label}>
          <Swatch color={item.color} kind={item.kind} />
          <span class="name">{item.label}</span> <b>{item.value(place)}</b>
        </span>
      ))}
      {near.map((mark) => (
        <span key={mark.label} class="item mark">
          {MARK_SIGNS[mark.kind]} {mark.label}
        </span>
      ))}
      {outside.value && <span class="item" title="A threshold that this scale doesn't reach">┄ {outside}</span>}
      {locked.value && onOpen && value !== undefined && (
        <button type="button" class="small" onClick={() => onOpen(value)}>
          Open {xText(value, x)}
        </button>
      )}
      {children}
    </p>
  );
}

export function Swatch({ color, kind }: Pick<LegendItem, "color" | "kind">) {
  if (kind === "none") return null;
  return <i class={`swatch ${kind}`} style={{ "--of": color }} aria-hidden="true" />;
}
