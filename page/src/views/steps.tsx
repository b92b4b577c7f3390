// The step that a view shows: from the URL, else the newest; `[` and `]` go to its neighbours.
import type { JSX } from "preact";
import { useAnswer, type Steps } from "../api";
import { useKey } from "../keys";
import { adjust, param, steps as range } from "../state";

export interface StepChoice {
  step: number | null;
  all: readonly number[];
  answer: ReturnType<typeof useAnswer<Steps>>;
  to: (step: number) => void;
  by: (direction: 1 | -1) => void;
}

/** `every`: a view that can show all steps together does so until one is chosen. */
export function useStep(run: string, every = false): StepChoice {
  const answer = useAnswer<Steps>(`/api/runs/${encodeURIComponent(run)}/steps`, { bins: 100_000 });
  const all = answer.value?.steps ?? [];
  const chosen = param("step");
  const fallback = every ? null : ((range.value ? all.find((one) => one >= range.value![0]) : undefined) ?? all[all.length - 1] ?? null);
  const step = chosen === "" || Number.isNaN(Number(chosen)) ? fallback : Number(chosen);
  const to = (next: number): void => adjust({ step: next });
  const by = (direction: 1 | -1): void => {
    if (!all.length) return;
    const index = step === null ? -1 : all.indexOf(step);
    const next = index < 0 ? (direction > 0 ? all[0] : all[all.length - 1]) : all[index + direction];
    if (next !== undefined) to(next);
  };
  useKey("[", "the step before", () => by(-1));
  useKey("]", "the step after", () => by(1));
  return { step, all, answer, to, by };
}

export function StepPicker({ choice, every = false }: { choice: StepChoice; every?: boolean }): JSX.Element {
  const { step, all, to, by } = choice;
  const [first, last] = [all[0], all[all.length - 1]];
  return (
    <span class="step-picker">
      <button
        type="button"
        title="The step before ([)"
        aria-label="The step before"
        disabled={step !== null && step === first}
        onClick={() => by(-1)}
      >
        ‹
      </button>
      <label>
        step
        <input
          type="number"
          min={first}
          max={last}
          value={step ?? ""}
          placeholder="all"
          onChange={(event) => (event.currentTarget.value === "" ? adjust({ step: null }) : to(Number(event.currentTarget.value)))}
        />
      </label>
      <button
        type="button"
        title="The step after (])"
        aria-label="The step after"
        disabled={step !== null && step === last}
        onClick={() => by(1)}
      >
        ›
      </button>
      {last !== undefined ? <span class="muted">of {last}</span> : null}
      {every && step !== null ? (
        <button type="button" onClick={() => adjust({ step: null })}>
          All steps
        </button>
      ) : null}
    </span>
  );
}
