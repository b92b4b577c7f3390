// Curves of several runs at the same places: the difference to the first, and their spread.
import type { Curve } from "../../api";

export interface Values {
  xs: number[];
  ys: (number | null)[];
}

/** `curve` minus `base`, only where both have a value: nothing is made up between points. */
export function difference(base: Curve, curve: Curve): Values {
  const known = new Map(base.xs.map((x, index) => [x, base.ys[index] ?? null]));
  const xs: number[] = [];
  const ys: (number | null)[] = [];
  curve.xs.forEach((x, index) => {
    if (!known.has(x)) return;
    const [a, b] = [known.get(x) ?? null, curve.ys[index] ?? null];
    xs.push(x);
    ys.push(a === null || b === null ? null : b - a);
  });
  return { xs, ys };
}

/** Median, least and greatest of the runs that have a value at an x, and how many they are at most. */
export function spread(curves: readonly Curve[]): { median: Values; low: Values; high: Values; most: number } {
  const at = new Map<number, number[]>();
  for (const curve of curves) {
    curve.xs.forEach((x, index) => {
      const value = curve.ys[index];
      const values = at.get(x) ?? [];
      if (value !== null && value !== undefined) values.push(value);
      at.set(x, values);
    });
  }
  const xs = [...at.keys()].sort((a, b) => a - b);
  const sorted = xs.map((x) => [...(at.get(x) ?? [])].sort((a, b) => a - b));
  const middle = (values: readonly number[]): number | null => {
    const half = Math.floor(values.length / 2);
    const [a, b] = [values[half - 1], values[half]];
    if (b === undefined) return null;
    return values.length % 2 || a === undefined ? b : (a + b) / 2;
  };
  return {
    median: { xs, ys: sorted.map(middle) },
    low: { xs, ys: sorted.map((values) => values[0] ?? null) },
    high: { xs, ys: sorted.map((values) => values.at(-1) ?? null) },
    most: Math.max(0, ...sorted.map((values) => values.length)),
  };
}

/** Every setting by its dotted name; lists are one value. */
export function flat(value: unknown, prefix = ""): Map<string, string> {
  const found = new Map<string, string>();
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    for (const [name, inner] of Object.entries(value)) {
      for (const [key, text] of flat(inner, prefix ? `${prefix}.${name}` : name)) found.set(key, text);
    }
    return found;
  }
  return found.set(prefix, typeof value === "string" ? value : JSON.stringify(value));
}
