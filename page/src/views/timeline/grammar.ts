// The lane filter: words and `key:value` terms, all of which must hold. `-` in front turns a term round.
//
//     role:actor rank:0-7,12 host:node3 kind:replica replica:2 idle:>50% gap:>2 errors:>0 every:8 -role:ref
//
// A word without a key is looked for in the lane's name and its host.

import type { Lane } from "../../api";

export const HELP = "role:actor rank:0-7,12 host:node3 kind:rank replica:2 idle:>50% gap:>2 errors:>0 every:8 -word";

const KEYS = ["role", "rank", "host", "kind", "replica", "idle", "gap", "errors", "every"] as const;
type Key = (typeof KEYS)[number];

export interface Filter {
  terms: { not: boolean; test: (lane: Lane) => boolean }[];
  /** Of the lanes that are left, each n-th. */
  every: number;
  /** What is wrong, in words; such a term filters nothing. */
  mistakes: string[];
}

export function parse(text: string): Filter {
  const filter: Filter = { terms: [], every: 1, mistakes: [] };
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const not = word.startsWith("-") && word.length > 1;
    const term = not ? word.slice(1) : word;
    const colon = term.indexOf(":");
    if (colon < 0) {
      filter.terms.push({ not, test: (lane) => includes(lane.lane, term) || includes(lane.host, term) });
      continue;
    }
    const [key, value] = [term.slice(0, colon).toLowerCase(), term.slice(colon + 1)];
    if (!isKey(key)) filter.mistakes.push(`no term "${key}:" (there are ${KEYS.join(", ")})`);
    else if (key === "every") {
      const every = Number(value);
      if (Number.isInteger(every) && every > 0) filter.every = every;
      else filter.mistakes.push(`"every:" wants a whole number above 0, not "${value}"`);
    } else {
      const test = testOf(key, value);
      if (test) filter.terms.push({ not, test });
      else filter.mistakes.push(`"${key}:" doesn't understand "${value}"`);
    }
  }
  return filter;
}

/** Indices of the lanes that the filter leaves. */
export function select(lanes: readonly Lane[], filter: Filter): number[] {
  const left: number[] = [];
  lanes.forEach((lane, index) => {
    if (filter.terms.every(({ not, test }) => test(lane) !== not)) left.push(index);
  });
  return filter.every > 1 ? left.filter((_, n) => n % filter.every === 0) : left;
}

function isKey(key: string): key is Key {
  return (KEYS as readonly string[]).includes(key);
}

function testOf(key: Exclude<Key, "every">, value: string): ((lane: Lane) => boolean) | null {
  if (key === "role" || key === "host" || key === "kind") {
    const wanted = value.toLowerCase().split(",").filter(Boolean);
    return wanted.length ? (lane) => wanted.some((one) => (key === "kind" ? lane.kind === one : includes(lane[key], one))) : null;
  }
  if (key === "rank" || key === "replica") {
    const ranges = value.split(",").map((part) => /^(\d+)(?:-(\d+))?$/.exec(part));
    if (ranges.some((range) => !range)) return null;
    return (lane) => {
      const number = lane[key];
      return number !== null && ranges.some((range) => number >= Number(range![1]) && number <= Number(range![2] ?? range![1]));
    };
  }
  const comparison = /^([<>]=?|=)?(\d+(?:\.\d+)?)(%)?$/.exec(value);
  if (!comparison) return null;
  const [, sign = ">=", digits, percent] = comparison;
  const bound = Number(digits) / (percent ? 100 : 1);
  return (lane) => {
    const actual = key === "gap" ? lane.gap_s : lane[key];
    if (actual === null) return false;
    if (sign === "=") return actual === bound;
    if (sign === ">" || sign === ">=") return actual > bound || (sign === ">=" && actual === bound);
    return actual < bound || (sign === "<=" && actual === bound);
  };
}

function includes(text: string | null, part: string): boolean {
  return text !== null && text.toLowerCase().includes(part.toLowerCase());
}
