// One meaning for each colour, in both themes. The values are css variables of styles.css; a canvas asks `paint`.
import { effect } from "@preact/signals";
import { theme } from "./state";

/** verl's timer names and the parts of a trajectory, by what they are. Order is the order of stacks. */
const PHASES: readonly [RegExp, string][] = [
  [/^(gen|generate|generate_sequences|rollout|model|async_gen|gen_max)$/, "gen"],
  [/^(reward|compute_rm_score|rm|reward_fn|score)$/, "reward"],
  [/^(old_log_prob|compute_log_prob)$/, "logp-old"],
  [/^(ref|ref_log_prob|compute_ref_log_prob|teacher|teacher_log_prob)$/, "logp-ref"],
  [/^(values|compute_values)$/, "logp-values"],
  [/^(adv|advantage|compute_advantage)$/, "adv"],
  [/^update_critic$/, "update-critic"],
  [/^(update_actor|update_policy|train_batch|update)$/, "update-actor"],
  [/^(update_weights|sync_weights|sync_rollout_weights|sync|param_sync|weights|sleep|wake_up)$/, "sync"],
  [/^(save_checkpoint|save_hf_model|load_checkpoint|checkpoint)$/, "checkpoint"],
  [/^(testing|validate|validation|test)$/, "testing"],
  [/^(tool|execute_tool|interact)$/, "tool"],
  [/^(init|warmup|start|init_workers)$/, "init"],
  [/^(wait|waiting|queue|gate|idle|rest|wait_prev_gen|bubble)$/, "wait"],
];

const kindOf = (phase: string): string => PHASES.find(([names]) => names.test(phase))?.[1] ?? "unknown";

/** `var(--phase-gen)`, for html and svg. */
export const phaseVar = (phase: string): string => `var(--phase-${kindOf(phase)})`;

/** Waiting and what nobody explains are hatched, so that they are told from work without colour. */
export const isHatched = (phase: string): boolean => kindOf(phase) === "wait";

/** Where a phase stands in a stack; unknown names come after the known, by name. */
export function comparePhases(a: string, b: string): number {
  const place = (phase: string): number => {
    const index = PHASES.findIndex(([names]) => names.test(phase));
    return index < 0 ? PHASES.length : index;
  };
  return place(a) - place(b) || a.localeCompare(b, undefined, { numeric: true });
}

const RUNS = 8;
/** Runs have a set of their own; the ninth has the first's colour and a dash. */
export const runVar = (index: number): string => `var(--run-${index % RUNS})`;
export const runDashed = (index: number): boolean => index % (2 * RUNS) >= RUNS;

const cache = new Map<string, string>();
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  cache.clear();
});

/** What a canvas needs for a css variable (`--line`, `var(--phase-gen)`); other colours are given back. */
export function paint(color: string): string {
  const name = /^(?:var\()?(--[\w-]+)/.exec(color)?.[1];
  if (name === undefined) return color;
  let value = cache.get(name);
  if (value === undefined) {
    value = window.getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
    cache.set(name, value);
  }
  return value;
}

export const phaseColor = (phase: string): string => paint(phaseVar(phase));
export const runColor = (index: number): string => paint(runVar(index));

/** A colour (#rrggbb) with an opacity. */
export function faded(color: string, opacity: number): string {
  const hex = paint(color);
  return /^#[0-9a-f]{6}$/i.test(hex) ? `${hex}${Math.round(opacity * 255).toString(16).padStart(2, "0")}` : hex;
}

/** Magnitude from 0 to 1: one hue, light to dark (dark to light on dark). */
export function magnitude(value: number): string {
  const at = Math.min(1, Math.max(0, value));
  return theme.value === "dark" ? `hsl(208 ${30 + 45 * at}% ${16 + 60 * at}%)` : `hsl(208 ${35 + 45 * at}% ${96 - 66 * at}%)`;
}

/** A difference from -1 to 1: blue, neutral, red around a centre that the picture states. */
export function difference(value: number): string {
  const at = Math.min(1, Math.abs(value));
  const hue = value < 0 ? 212 : 4;
  return theme.value === "dark" ? `hsl(${hue} ${70 * at}% ${18 + 40 * at}%)` : `hsl(${hue} ${75 * at}% ${97 - 47 * at}%)`;
}

/** Diagonal lines in `color` over `ground`, for a canvas' fillStyle. */
export function hatch(context: CanvasRenderingContext2D, color: string, ground = "transparent", scale = window.devicePixelRatio): CanvasPattern {
  const size = Math.max(4, Math.round(5 * scale));
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d") as CanvasRenderingContext2D;
  if (ground !== "transparent") {
    pen.fillStyle = paint(ground);
    pen.fillRect(0, 0, size, size);
  }
  pen.strokeStyle = paint(color);
  pen.lineWidth = Math.max(1, scale);
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat") as CanvasPattern;
}
