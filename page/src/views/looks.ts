// How states look on a canvas and in a legend: the page's phase colours, and hatches for what is no work.
import { computed } from "@preact/signals";
import { comparePhases, faded, paint, phaseColor } from "../colors";
import { theme } from "../state";
import { HATCH_FROM, type Hatch, type Paint } from "../chart/painter";
import { KINDS } from "./batch/layout";

const SHADES = 8;

export function hatchOf(state: string): Hatch | undefined {
  if (/^idle|^sleep/.test(state)) return "idle";
  if (/wait|^queue$|^gate$|^parked$|^rest$|bubble/.test(state)) return "waiting";
  return state === "unknown" ? "unknown" : undefined;
}

/** States from the bottom of a stack up: work in its fixed order, then what is no work. */
export function stackOrder(states: readonly string[]): number[] {
  const rest = (state: string): number => Number(hatchOf(state) !== undefined);
  return states.map((_, index) => index).sort((a, b) => rest(states[a]!) - rest(states[b]!) || comparePhases(states[a]!, states[b]!));
}

/** What the server calls a version of the weights, or some that follow each other. */
export const isWeights = (state: string): boolean => state.startsWith("weights ");

function paintOf(state: string): Paint {
  if (state === "") return { color: "" };
  if (state === "error") return { color: paint("--error") };
  const hatch = hatchOf(state);
  return hatch ? { color: paint("--muted"), hatch } : { color: phaseColor(state) };
}

const shadeOf = (at: number, dark: boolean): Paint => ({ color: dark ? `hsl(208 70% ${24 + 46 * at}%)` : `hsl(208 75% ${82 - 50 * at}%)` });

/** Colours of the theme that is on; the same object until it changes, so that a picture knows when to paint again. */
const looks = computed(() => {
  const dark = theme.value === "dark";
  return {
    background: paint("--surface"),
    text: paint("--text"),
    muted: paint("--muted"),
    grid: paint("--grid"),
    error: paint("--error"),
    accent: paint("--accent"),
    states: (names: readonly string[]): Paint[] => {
      const versions = names.filter(isWeights);
      return names.map((name) => (isWeights(name) ? shadeOf(versions.indexOf(name) / Math.max(1, versions.length - 1), dark) : paintOf(name)));
    },
    /** What a row that rests looks like: hatched, or faint where the row is too thin for that. */
    idle: (height: number): Paint => (height >= HATCH_FROM ? paintOf("idle") : { color: faded("--muted", 0.22) }),
    /** Of a batch's cells: nothing, its own code, the kinds, and the kinds again where they failed. */
    kinds: (): Paint[] => {
      const kinds = KINDS.map(paintOf).map((one) => (one.hatch ? { ...one, ground: paint("--raised") } : one));
      return [{ color: "" }, { color: paint("--phase-unknown") }, ...kinds, ...kinds];
    },
    /** A weight version is a step of lightness of one hue: the newest stands out most. */
    weights: (): Paint[] => Array.from({ length: SHADES }, (_, n) => shadeOf(n / (SHADES - 1), dark)),
  };
});

export type Looks = typeof looks.value;
export const useLooks = (): Looks => looks.value;
