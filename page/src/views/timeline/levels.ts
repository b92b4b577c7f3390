// Numbers as levels of a diverging scale, so that a heatmap is painted as a matrix of states.
import { computed } from "@preact/signals";
import type { Paint } from "../../chart/painter";
import { difference } from "../../colors";

/** Levels on each side of the centre. */
export const LEVELS = 60;
const CENTRE = LEVELS + 1;

/** 0 is absent. */
export function levelOf(value: number | null, most: number): number {
  if (value === null || !Number.isFinite(value)) return 0;
  return CENTRE + Math.round(Math.max(-1, Math.min(1, value / most)) * LEVELS);
}

export const diverging = computed((): Paint[] => [
  { color: "" },
  ...Array.from({ length: 2 * LEVELS + 1 }, (_, n) => ({ color: difference((n - LEVELS) / LEVELS) })),
]);
