// Which of verl's keys the overview's pictures read, of those that the run has logged.
import type { Key } from "../../api";

export interface Chosen {
  main: Key | null;
  high: string | null;
  low: string | null;
  validation: Key[];
  entropy: string | null;
  kl: string | null;
  clip: string | null;
  gradient: string | null;
  difference: string | null;
  correlation: string | null;
  all: string[];
}

/** By preference; trainers name the same thing differently. */
const MAIN = ["critic/score/mean", "critic/rewards/mean", "train/reward", "train/loss", "actor/loss", "actor/pg_loss"];
const VALIDATIONS = 4;

/** One curve for each data source: accuracy before reward, a mean before a best-of. */
function validations(keys: readonly Key[]): Key[] {
  const rank = ({ key }: Key): number => (/\/acc\//.test(key) ? 0 : 2) + (/mean@/.test(key) ? 0 : 1);
  const best = new Map<string, Key>();
  for (const key of keys) {
    const source = /^val-core\/(.+?)\/(?:acc|reward|score|[^/]+)\/[^/]*@?[^/]*(?:\/mean)?$/.exec(key.key)?.[1] ?? (/^val\/(loss|test_score\/.+)/.test(key.key) ? "validation" : null);
    const held = source === null ? undefined : best.get(source);
    if (source !== null && (!held || rank(key) < rank(held))) best.set(source, key);
  }
  return [...best.values()].slice(0, VALIDATIONS);
}

export function chooseKeys(keys: readonly Key[], reward: string | null): Chosen {
  const names = new Map(keys.map((one) => [one.key, one]));
  const first = (...wanted: string[]): string | null => wanted.find((one) => names.has(one)) ?? null;
  const mainName = first(...(reward ? [reward] : []), ...MAIN);
  const main = mainName === null ? null : (names.get(mainName) ?? null);
  const ofFamily = (statistic: string): string | null =>
    main?.statistic ? (keys.find((one) => one.family === main.family && one.statistic === statistic)?.key ?? null) : null;
  const chosen = {
    main,
    high: ofFamily("max"),
    low: ofFamily("min"),
    validation: validations(keys),
    entropy: first("actor/entropy", "actor/entropy_loss"),
    kl: first("actor/ppo_kl", "actor/kl_loss", "rollout_corr/kl"),
    clip: first("actor/pg_clipfrac", "actor/clipfrac"),
    gradient: first("actor/grad_norm", "train/grad_norm"),
    difference: first("training/rollout_probs_diff_mean"),
    correlation: first("training/rollout_actor_probs_pearson_corr"),
  };
  const { validation, main: _, ...rest } = chosen;
  const all = [mainName, ...Object.values(rest), ...validation.map((one) => one.key)].filter((one) => one !== null);
  return { ...chosen, all: [...new Set(all)] };
}
