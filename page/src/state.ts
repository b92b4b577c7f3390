// One selection for the whole page. The URL's hash is the only copy: `#/<view>/<run>?steps=3-20&x=time`.
import { batch, computed, signal } from "@preact/signals";

export type XAxis = "step" | "time" | "elapsed";
export type Range = readonly [number, number];
export type Params = Record<string, string | number | null | undefined>;

interface Route {
  view: string;
  run: string | null;
  params: Readonly<Record<string, string>>;
}

/** What is selected stays selected when another view is opened; anything else belongs to its view. */
const SHARED = ["runs", "steps", "times", "x", "smooth"];

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, run] = path.split("/").map(decodeURIComponent);
  return { view: view || "runs", run: run || null, params: Object.fromEntries(new URLSearchParams(query)) };
}

export function hrefOf(view: string, run: string | null, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
  return `#/${view}${run === null ? "" : `/${encodeURIComponent(run)}`}${text ? `?${text}` : ""}`;
}

export const route = signal<Route>(parse(window.location.hash));
const read = (): void => {
  const next = parse(window.location.hash);
  // The same address read twice is no change: views would draw again for nothing.
  if (JSON.stringify(next) !== JSON.stringify(route.peek())) route.value = next;
};
window.addEventListener("hashchange", read);
window.addEventListener("popstate", read);

const shared = (): Params => Object.fromEntries(Object.entries(route.peek().params).filter(([name]) => SHARED.includes(name)));

/** A link to a view of a run that keeps the selection; `params` are added to it (null takes one away). */
export function linkTo(view: string, run: string | null = route.value.run, params: Params = {}): string {
  return hrefOf(view, run, { ...shared(), ...params });
}

/** Opens a view: a new entry in the history. `run` undefined stays at the run shown. */
export function go(view: string, params: Params = {}, run: string | null = route.peek().run): void {
  window.history.pushState(null, "", linkTo(view, run, params));
  read();
  window.scrollTo(0, 0);
}

/** Changes the view that is shown (zoom, filter, sort): replaces the entry in the history. */
export function adjust(params: Params): void {
  const { view, run, params: old } = route.peek();
  window.history.replaceState(null, "", hrefOf(view, run, { ...old, ...params }));
  read();
}

/** A parameter of the URL, "" where absent; reading it in a component follows it. */
export const param = (name: string): string => route.value.params[name] ?? "";

const parseRange = (text: string | undefined): Range | null => {
  const found = /^(-?[\d.]+)-(-?[\d.]+)$/.exec(text ?? "");
  return found ? [Number(found[1]), Number(found[2])] : null;
};
const rangeText = (range: Range | null): string | null => (range ? `${+range[0].toFixed(3)}-${+range[1].toFixed(3)}` : null);
const list = (text: string | undefined): string[] => (text ? text.split(",").map(decodeURIComponent) : []);
export const listText = (items: readonly string[]): string | null => items.map(encodeURIComponent).join(",") || null;

/** A list compares equal as long as its text does: effects don't run for other parameters. */
const text = (name: string) => computed(() => route.value.params[name]);
const [runsText, stepsText, timesText, xText, pinsText, lanesText, smoothText] =
  ["runs", "steps", "times", "x", "pins", "lanes", "smooth"].map(text) as [T, T, T, T, T, T, T];
type T = ReturnType<typeof text>;

/** Runs chosen to be compared. */
export const runs = computed(() => list(runsText.value));
/** The chosen range of steps, and the times (ms) that belong to it; null is everything. */
export const steps = computed(() => parseRange(stepsText.value));
export const times = computed(() => parseRange(timesText.value));
export const xAxis = computed<XAxis>(() => (xText.value === "time" || xText.value === "elapsed" ? xText.value : "step"));
/** Keys of pinned charts. */
export const pinned = computed(() => list(pinsText.value));
/** The filter of lanes, as typed. */
export const lanes = computed(() => lanesText.value ?? "");
/** 0 (as logged) to 0.99: weight of what came before. */
export const smoothing = computed(() => Math.min(0.99, Math.max(0, Number(smoothText.value ?? 0) || 0)));

export function selectRuns(ids: readonly string[]): void {
  adjust({ runs: listText(ids) });
}

/** Chooses a range; give the other axis' range where it is known (see link.ts), else it is taken away. */
export function select(range: { steps?: Range | null; times?: Range | null }): void {
  adjust({ steps: rangeText(range.steps ?? null), times: rangeText(range.times ?? null) });
}

export function pin(key: string, on: boolean): void {
  const rest = pinned.peek().filter((one) => one !== key);
  adjust({ pins: listText(on ? [...rest, key] : rest) });
}

/** Where the cursor is, for pictures that follow each other. */
export const hover = signal<{ step?: number; time?: number } | null>(null);

export type Theme = "light" | "dark";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const stored = (): string | null => {
  try {
    return window.localStorage.getItem("verl-otel-theme");
  } catch {
    return null; // a report opened from a file may have no storage
  }
};
const chosen = signal<string | null>(stored());
const systemDark = signal(system.matches);
system.addEventListener("change", () => (systemDark.value = system.matches));

/** Not in the URL: a link sent to a colleague doesn't switch their page. */
export const theme = computed<Theme>(() =>
  chosen.value === "light" || chosen.value === "dark" ? chosen.value : systemDark.value ? "dark" : "light",
);

export function setTheme(next: Theme): void {
  batch(() => (chosen.value = next));
  try {
    window.localStorage.setItem("verl-otel-theme", next);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}
