// Curves of a run as pictures need them: on the page's axis, finer where it is zoomed.
import { useMemo } from "preact/hooks";
import type { Curve, Curves, Mark, Steps } from "./api";
import { useAnswer, type Answer } from "./client";
import type { PlacedMark } from "./chart/plot";
import { selectSteps, selectTimes } from "./link";
import { steps, times, xAxis, type Range, type XAxis } from "./state";

const none: readonly Mark[] = [];
export const pathOf = (run: string, rest = ""): string => `/api/runs/${encodeURIComponent(run)}${rest}`;

/** The zoom of the page on its x axis: what charts get as `range` and `onRange`. Elapsed time is each chart's own. */
export function zoomOf(answer: Steps | undefined, x: XAxis = xAxis.value): { range?: Range | null; onRange?: (range: Range | null) => void } {
  if (x === "step") {
    const whole = (range: Range | null): Range | null => range && [Math.floor(range[0]), Math.max(Math.floor(range[0]) + 1, Math.ceil(range[1]))];
    return { range: steps.value, onRange: (range) => selectSteps(whole(range), answer) };
  }
  return x === "time" ? { range: times.value, onRange: (range) => selectTimes(range, answer) } : {};
}

/** The coarse curve with its zoomed part in fine: the rest stays for panning. */
function merged(coarse: Curve, fine: Curve | undefined, [from, to]: Range): Curve {
  if (!fine || !coarse.reduced) return coarse;
  const xs: number[] = [];
  const ys: (number | null)[] = [];
  const take = (curve: Curve, wanted: (x: number) => boolean): void =>
    curve.xs.forEach((x, index) => {
      if (wanted(x)) {
        xs.push(x);
        ys.push(curve.ys[index] ?? null);
      }
    });
  take(coarse, (x) => x < from);
  take(fine, (x) => x >= from && x <= to);
  take(coarse, (x) => x > to);
  return { ...coarse, xs, ys };
}

/** Curves by key; `wanted` empty asks nothing. At most 64 keys. */
export function useCurves(run: string, wanted: readonly string[], width = 1200): Answer<Curves> & { of: (key: string | null | undefined) => Curve | undefined } {
  const x = xAxis.value;
  const zoom = x === "step" ? steps.value : x === "time" ? times.value : null;
  const path = wanted.length ? pathOf(run, "/curves") : null;
  const coarse = useAnswer<Curves>(path, { key: wanted, x, width });
  const reduced = zoom !== null && coarse.value?.curves.some((one) => one.reduced) === true;
  const fine = useAnswer<Curves>(reduced ? path : null, { key: wanted, x, width, from: zoom?.[0], to: zoom?.[1] });
  // An answer for another axis is of no use here, not even dimmed.
  const fits = coarse.value?.x === x ? coarse.value : undefined;
  const detail = reduced && fine.value?.x === x && !fine.stale ? fine.value : undefined;
  const byKey = useMemo(() => {
    const fines = new Map(detail?.curves.map((one) => [one.key, one]));
    return new Map(fits?.curves.map((one) => [one.key, zoom && detail ? merged(one, fines.get(one.key), zoom) : one]));
  }, [fits, detail]);
  return { ...coarse, value: fits, of: (key) => (key ? byKey.get(key) : undefined) };
}

/** Marks at their places on the page's axis. Elapsed time has no origin that marks know: none are placed there. */
export function useMarks(run: string): PlacedMark[] {
  const x = xAxis.value;
  const marks = useAnswer<{ marks: Mark[] }>(pathOf(run, "/marks")).value?.marks ?? none;
  return useMemo(
    () =>
      marks.flatMap(({ time, step, kind, label }) => {
        const at = x === "time" ? time : x === "step" ? step : null;
        return at === null ? [] : [{ x: at, kind, label }];
      }),
    [marks, x],
  );
}

/** "3 NaN" for a title; null where every value is a number. */
export function oddText(curve: Curve | undefined): string | null {
  const odd = curve?.nonfinite ?? [];
  if (odd.length === 0) return null;
  const names = new Map<string, number>();
  for (const [, name] of odd) names.set(name, (names.get(name) ?? 0) + 1);
  return [...names].map(([name, times_]) => `${times_} ${name}`).join(", ");
}
