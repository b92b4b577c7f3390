// What kind of work a span is, by its name: so it has the colour that the work has everywhere.
import type { TraceSpan } from "../../api";

const KINDS: readonly [RegExp, string][] = [
  [/^verl\.phase\.(.+)$/, "$1"],
  [/^(chat|verl\.engine\.generate)/, "model"],
  [/^execute_tool/, "tool"],
  [/^verl\.reward/, "reward"],
  [/^verl\.queue\./, "queue"],
  [/^verl\.validate/, "testing"],
  [/^verl\.(init|warmup)/, "init"],
  [/^verl\.replica\.(sleep|wake_up|update_weights)/, "sync"],
];

export function kindOf(span: TraceSpan): string {
  for (const [pattern, kind] of KINDS) {
    const found = pattern.exec(span.name);
    if (found) return kind === "$1" ? found[1]! : kind;
  }
  const phase = span.attributes["verl.phase"];
  return typeof phase === "string" ? phase : "unknown";
}

/** Where it ran, as short as tells it. */
export function whereOf({ role, rank, host }: TraceSpan): string {
  const who = role === null ? "" : rank === null ? role : `${role}/${rank}`;
  return [who, host].filter(Boolean).join(" on ");
}
