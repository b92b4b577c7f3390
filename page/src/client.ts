// Reading answers: once for everybody who asks for the same one, again when the run has new data.
import { batch, effect, signal, untracked } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Curves } from "./api";
import { isReport, revOf, visible } from "./live";

export { isReport } from "./live";

type Value = string | number | boolean | null | undefined;
export type Parameters = Record<string, Value | readonly (string | number)[]>;

/** `/api/...` with its parameters by name, so that one question has one URL. Absent parameters are left out. */
export function urlOf(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const name of Object.keys(parameters).sort()) {
    const value = parameters[name];
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) query.append(name, String(one));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The answer to a question; raises an Error with one clear line. */
export async function get<T>(path: string, parameters: Parameters = {}): Promise<T> {
  if (isReport) return embedded<T>(path, parameters);
  let response: Response;
  try {
    // Relative, so that the page works below a prefix (a notebook's proxy).
    response = await fetch(urlOf(path, parameters).slice(1), { headers: { accept: "application/json" } });
  } catch {
    throw new Error("The backend doesn't answer. Does `verl-otel up` still run?");
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const said = (body as { error?: unknown } | null)?.error;
    throw new Error(typeof said === "string" ? said : `The backend answered ${response.status} ${response.statusText}.`);
  }
  return body as T;
}

/** A report has one answer for a path, whatever the width or range: the page cuts what it needs. */
function embedded<T>(path: string, parameters: Parameters): T {
  const answers = window.__answers ?? {};
  const { x, step } = parameters;
  const candidates = [urlOf(path, parameters), urlOf(path, { x, step }), urlOf(path, { step }), path];
  const url = candidates.find((one) => one in answers);
  if (url === undefined) throw new Error("This report doesn't hold that. Open the run with `verl-otel up` to see it.");
  const answer = answers[url];
  const keys = parameters.key;
  if (!path.endsWith("/curves") || !Array.isArray(keys)) return answer as T;
  const curves = answer as Curves;
  if (typeof x === "string" && curves.x !== x) throw new Error(`This report holds no curves by ${x}; by ${curves.x} it does.`);
  return { ...curves, curves: curves.curves.filter((one) => keys.includes(one.key)) } as T;
}

export interface Answer<T> {
  value: T | undefined;
  error: Error | undefined;
  loading: boolean;
  /** What is shown answers an earlier question: it is dimmed when that takes long. */
  stale: boolean;
  retry: () => void;
}

const INTERVAL_MS = 1000;
const KEPT = 24; // answers nobody shows now: going back draws at once

/** One question, asked once for all who show its answer. */
class Question {
  readonly value = signal<unknown>(undefined);
  readonly error = signal<Error | undefined>(undefined);
  readonly loading = signal(false);
  readers = 0;
  private asked = -1; // the run's rev that the answer has at least
  private at = 0;
  private timer = 0;
  private end: (() => void) | null = null;

  constructor(
    private readonly path: string,
    private readonly parameters: Parameters,
  ) {}

  read = (): void => {
    this.asked = untracked(() => revOf(this.path));
    this.at = Date.now();
    this.loading.value = true;
    get<unknown>(this.path, this.parameters)
      .then((answer) => {
        // The stream's first message names a rev that this answer may have already.
        const rev = (answer as { rev?: unknown } | null)?.rev;
        if (typeof rev === "number") this.asked = Math.max(this.asked, rev);
        batch(() => {
          this.value.value = answer;
          this.error.value = undefined;
        });
      })
      .catch((problem: unknown) => {
        this.error.value = problem instanceof Error ? problem : new Error(String(problem));
      })
      .finally(() => {
        this.loading.value = false;
      });
  };

  hold(): () => void {
    this.readers += 1;
    this.end ??= effect(() => this.follow());
    return () => this.release();
  }

  private follow(): void {
    const rev = revOf(this.path);
    if (!visible.value || this.loading.value || (this.asked >= 0 && rev <= this.asked)) return;
    window.clearTimeout(this.timer);
    const wait = this.asked < 0 ? 0 : Math.max(0, INTERVAL_MS - (Date.now() - this.at));
    if (wait === 0) untracked(this.read);
    else this.timer = window.setTimeout(this.read, wait);
  }

  private release(): void {
    this.readers -= 1;
    if (this.readers > 0) return;
    this.end?.();
    this.end = null;
    window.clearTimeout(this.timer);
    for (const [url, one] of questions) {
      if (questions.size <= KEPT) break;
      if (one.readers === 0) questions.delete(url);
    }
  }
}

const questions = new Map<string, Question>();

function questionOf(path: string, parameters: Parameters): Question {
  const url = urlOf(path, parameters);
  const question = questions.get(url) ?? new Question(path, parameters);
  questions.delete(url); // newest last: the oldest are forgotten first
  questions.set(url, question);
  return question;
}

/**
 * The answer to a question, read again when the run has new data. While another question of the same path is asked
 * (a zoom), the old answer stays, marked `stale`. A path of null asks nothing.
 */
export function useAnswer<T>(path: string | null, parameters: Parameters = {}): Answer<T> {
  const url = path === null ? null : urlOf(path, parameters);
  const question = useMemo(() => (path === null ? null : questionOf(path, parameters)), [url]);
  const last = useRef<{ path: string | null; value: unknown }>({ path: null, value: undefined });
  useEffect(() => question?.hold(), [question]);
  if (question === null) return { value: undefined, error: undefined, loading: false, stale: false, retry: () => undefined };
  const value = question.value.value;
  const kept = value === undefined && last.current.path === path ? last.current.value : undefined;
  if (value !== undefined) last.current = { path, value };
  return {
    value: (value ?? kept) as T | undefined,
    error: question.error.value,
    loading: question.loading.value || (value === undefined && question.error.value === undefined),
    stale: kept !== undefined,
    retry: question.read,
  };
}
