// Keys and gestures of a timeline as changes of its range.
import { pan, zoom, type Range } from "../../chart/range";

/** The key without regard to where a keyboard has its plus. */
export function keyOf(event: KeyboardEvent): string {
  return event.key === "=" ? "+" : event.key === "_" ? "-" : event.key;
}

/** The range after a key; null where it is none of these. `time` is the cursor, or the share to pan by. */
export function moved(key: string, view: Range, time: number, bounds: Range, factor = 1): Range | null {
  if (key === "+") return zoom(view, 0.5, time, bounds);
  if (key === "-") return zoom(view, 2, time, bounds);
  if (key === "zoom") return zoom(view, factor, time, bounds);
  if (key === "a") return pan(view, -0.25, bounds);
  if (key === "d") return pan(view, 0.25, bounds);
  if (key === "pan") return pan(view, time, bounds);
  return key === "f" ? bounds : null;
}
