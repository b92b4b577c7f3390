// Smoothing of what was read, for the eye only: the raw line stays behind it.

/** Exponential mean with weight `of` for the past, without its bias to the start; gaps and NaN are left out and stay. */
export function smooth(ys: readonly (number | null)[], of: number): (number | null)[] {
  let sum = 0;
  let weight = 0;
  return ys.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    sum = of * sum + (1 - of) * value;
    weight = of * weight + (1 - of);
    return sum / weight;
  });
}
