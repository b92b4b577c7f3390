// Columns of the table of trajectories, and what a bar in a cell is long for.
import type { Histogram, Trajectory } from "../../api";
import { count, number, seconds } from "../../format";

export interface ColumnOf {
  /** Name that the server sorts by; null where it can't. */
  sort: string | null;
  title: string;
  help?: string;
  width: string;
  number?: boolean;
  text: (row: Trajectory) => string;
  /** What its bar stands for; absent for none. */
  value?: (row: Trajectory) => number | null;
}

const parts = (row: Trajectory): string =>
  Object.entries(row.parts)
    .map(([name, value]) => `${name} ${number(value, 3)}`)
    .join(", ") || "—";

export const COLUMNS: readonly ColumnOf[] = [
  { sort: "reward", title: "reward", width: "96px", number: true, text: (row) => number(row.reward, 3), value: (row) => row.reward },
  {
    sort: "tokens",
    title: "response",
    help: "Tokens after the prompt, those of tools included",
    width: "96px",
    number: true,
    text: (row) => count(row.response_tokens),
    value: (row) => row.response_tokens,
  },
  { sort: "turns", title: "turns", width: "72px", number: true, text: (row) => count(row.turns), value: (row) => row.turns },
  { sort: "seconds", title: "seconds", width: "96px", number: true, text: (row) => seconds(row.seconds), value: (row) => row.seconds },
  { sort: "stop_reason", title: "stopped by", width: "96px", text: (row) => row.stop_reason ?? "—" },
  { sort: "outcome", title: "outcome", width: "92px", text: (row) => row.outcome ?? "—" },
  { sort: "step", title: "step", width: "60px", number: true, text: (row) => (row.step === null ? "—" : String(row.step)) },
  {
    sort: "uid",
    title: "prompt / session",
    help: "verl.sample.uid: trajectories of one prompt are a group",
    width: "minmax(120px, 1fr)",
    text: (row) => `${row.uid ?? "—"} / ${row.session ?? "—"}`,
  },
  {
    sort: "prompt_tokens",
    title: "prompt",
    help: "Tokens of the prompt",
    width: "72px",
    number: true,
    text: (row) => count(row.prompt_tokens),
  },
  { sort: "tool_calls", title: "tools", help: "Tool calls", width: "60px", number: true, text: (row) => count(row.tool_calls) },
  {
    sort: "staleness",
    title: "weights",
    help: "Versions of the weights that made it, oldest to newest",
    width: "76px",
    number: true,
    text: weights,
  },
  { sort: null, title: "parts of the reward", width: "minmax(140px, 1.2fr)", text: parts },
];

function weights({ weights_oldest: oldest, weights_newest: newest }: Trajectory): string {
  if (oldest === null && newest === null) return "—";
  return oldest === newest || newest === null ? String(oldest) : `${oldest ?? "—"}–${newest}`;
}

/** Where the bars of a column start and end, over the rows shown; null where no row has a value. */
export function reach(
  rows: readonly Trajectory[],
  value: (row: Trajectory) => number | null,
): { zero: number; low: number; high: number } | null {
  const known = rows.map(value).filter((one): one is number => one !== null && Number.isFinite(one));
  if (!known.length) return null;
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  return { low, high, zero: high > low ? -low / (high - low) : 0 };
}

/** From and to of a bar as shares of its cell. */
export function barOf(value: number | null, scale: ReturnType<typeof reach>): [number, number] | null {
  if (value === null || !scale || scale.high === scale.low) return null;
  const end = (value - scale.low) / (scale.high - scale.low);
  return [Math.min(scale.zero, end), Math.max(scale.zero, end)];
}

/** Bars of a histogram as (from, to, count): with n + 1 bounds for n counts, or OTel's n - 1 with open ends. */
export function bins({ bounds, counts }: Histogram): { from: number | null; to: number | null; count: number }[] {
  const shift = counts.length < bounds.length ? 0 : -1;
  return counts.map((one, index) => ({ from: bounds[index + shift] ?? null, to: bounds[index + shift + 1] ?? null, count: one }));
}

export const OUTCOME_MARKS: Record<string, string> = { finished: "✓", failed: "✕", cancelled: "∅" };
