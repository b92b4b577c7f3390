// Zoom and pan of an interval inside its bounds, and round ticks for a time axis. All in milliseconds.

export type Range = readonly [number, number];

/** Below this a span's ends are not told apart. */
const LEAST = 1;

/** `factor` < 1 zooms in; what is at `centre` stays where it is. */
export function zoom([from, to]: Range, factor: number, centre: number, bounds: Range): Range {
  const width = Math.min(Math.max((to - from) * factor, LEAST), bounds[1] - bounds[0]);
  const share = to > from ? (centre - from) / (to - from) : 0.5;
  return clamp([centre - share * width, centre + (1 - share) * width], bounds);
}

/** `share` of the width, to the right where positive. */
export function pan([from, to]: Range, share: number, bounds: Range): Range {
  const shift = (to - from) * share;
  return clamp([from + shift, to + shift], bounds);
}

/** Moved inside the bounds without changing its width, unless it is wider than they are. */
export function clamp([from, to]: Range, bounds: Range): Range {
  const width = to - from;
  if (width >= bounds[1] - bounds[0]) return bounds;
  if (from < bounds[0]) return [bounds[0], bounds[0] + width];
  if (to > bounds[1]) return [bounds[1] - width, bounds[1]];
  return [from, to];
}

export function same(a: Range | null, b: Range | null): boolean {
  return a === b || (!!a && !!b && a[0] === b[0] && a[1] === b[1]);
}

const SECOND = 1000;
const [MINUTE, HOUR, DAY] = [60 * SECOND, 3600 * SECOND, 86_400 * SECOND];
const ROUND = [
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  SECOND,
  2 * SECOND,
  5 * SECOND,
  10 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
];

export interface Tick {
  at: number;
  label: string;
}

/** At most `most` ticks at round distances from `origin` (the run's start), labelled by what passed since then. */
export function ticks([from, to]: Range, most: number, origin: number): Tick[] {
  const least = (to - from) / Math.max(1, most);
  const step = ROUND.find((round) => round >= least) ?? Math.ceil(least / DAY) * DAY;
  const result: Tick[] = [];
  for (let n = Math.ceil((from - origin) / step); origin + n * step <= to; n++)
    result.push({ at: origin + n * step, label: since(n * step, step) });
  return result;
}

/** "1:02:03.250": with as many digits as `step` asks for. */
export function since(ms: number, step = SECOND): string {
  const sign = ms < 0 ? "−" : "";
  const rest = Math.abs(ms);
  const hours = Math.floor(rest / HOUR);
  const minutes = Math.floor((rest % HOUR) / MINUTE);
  const seconds = (rest % MINUTE) / SECOND;
  const digits = step < 1 ? 4 : step < 10 ? 3 : step < 100 ? 2 : step < SECOND ? 1 : 0;
  const tail = seconds.toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${sign}${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${sign}${minutes}:${tail}`;
}
