// A line the size of a word: shape only, no axes; its last value stands beside it as text.
interface SparkProps {
  points: readonly (readonly [number, number | null])[];
  width?: number;
  height?: number;
  color?: string;
}

export function Spark({ points, width = 96, height = 20, color = "var(--accent)" }: SparkProps) {
  const known = points.filter((one): one is readonly [number, number] => one[1] !== null && Number.isFinite(one[1]));
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last) return null;
  const ys = known.map((one) => one[1]);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const x = (value: number): number => 2 + ((width - 4) * (value - first[0])) / (last[0] - first[0] || 1);
  const y = (value: number): number => (high === low ? height / 2 : height - 3 - ((height - 6) * (value - low)) / (high - low));
  let path = "";
  let joined = false;
  for (const [at, value] of points) {
    if (value === null || !Number.isFinite(value)) joined = false;
    else {
      path += `${joined ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      joined = true;
    }
  }
  return (
    <svg class="spark" width={width} height={height} aria-hidden="true">
      <path d={path} fill="none" stroke={color} stroke-width="1.5" />
      <circle cx={x(last[0])} cy={y(last[1])} r="2" fill={color} />
    </svg>
  );
}
