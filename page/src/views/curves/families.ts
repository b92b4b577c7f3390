// Keys as charts: mean, max and min of one thing are one chart; the part before the first slash is its group.
import type { Key } from "../../api";

export interface CardKeys {
  /** The family, or the key itself where it has none. */
  name: string;
  keys: Key[];
  /** The line; the others of the family are its band or legend. */
  main: Key;
  high: Key | null;
  low: Key | null;
}

const LINES = ["mean", "value", "p50", "median"];

export function cardsOf(keys: readonly Key[]): CardKeys[] {
  const families = new Map<string, Key[]>();
  for (const key of keys) {
    // Without mean, max or min a family's keys are things of their own, as `val-core/.../mean@4` and `best@4`.
    const name = key.statistic !== null && /^(mean|max|min|std)$/.test(key.statistic) ? key.family : key.key;
    families.set(name, [...(families.get(name) ?? []), key]);
  }
  return [...families].map(([name, of]) => {
    const by = (statistic: string): Key | null => of.find((one) => one.statistic === statistic) ?? null;
    const main = LINES.map(by).find((one) => one !== null) ?? (of[0] as Key);
    const [high, low] = [by("max"), by("min")];
    return { name, keys: of, main, high: high === main ? null : high, low: low === main ? null : low };
  });
}

export const groupOf = (name: string): string => (name.includes("/") ? (name.split("/")[0] ?? "") : "other");

/** Words that all have to occur, or `/a regular expression/`; an unfinished expression finds its text. */
export function search(cards: readonly CardKeys[], query: string): readonly CardKeys[] {
  const text = query.trim();
  if (text === "") return cards;
  const expression = /^\/(.+)\/$/.exec(text)?.[1];
  if (expression !== undefined) {
    try {
      const wanted = new RegExp(expression, "i");
      return cards.filter((card) => card.keys.some((one) => wanted.test(one.key)));
    } catch {
      return cards.filter((card) => card.name.includes(expression));
    }
  }
  const words = text.toLowerCase().split(/\s+/);
  return cards.filter((card) => card.keys.some((one) => words.every((word) => one.key.toLowerCase().includes(word))));
}
