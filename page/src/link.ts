// From steps to times and back, by the start and end of each step.
import type { Steps } from "./api";
import { select, type Range } from "./state";

/** The wall-clock range (ms) of a range of steps; null where no step in it has times. */
export function timesOf(answer: Steps | undefined, range: Range): Range | null {
  let from = Infinity;
  let to = -Infinity;
  answer?.steps.forEach((step, index) => {
    if (step + answer.width <= range[0] || step > range[1]) return;
    from = Math.min(from, answer.start[index] ?? Infinity);
    to = Math.max(to, answer.end[index] ?? -Infinity);
  });
  return from < to ? [from, to] : null;
}

/** The steps that ran in a range of times (ms); null where there are none. */
export function stepsOf(answer: Steps | undefined, range: Range): Range | null {
  const found = (answer?.steps ?? []).filter((_, index) => {
    const start = answer?.start[index];
    const end = answer?.end[index];
    return start != null && end != null && start <= range[1] && end >= range[0];
  });
  return found.length ? [Math.min(...found), Math.max(...found) + (answer?.width ?? 1) - 1] : null;
}

export function selectSteps(range: Range | null, answer: Steps | undefined): void {
  select(range ? { steps: range, times: timesOf(answer, range) } : {});
}

export function selectTimes(range: Range | null, answer: Steps | undefined): void {
  select(range ? { times: range, steps: stepsOf(answer, range) } : {});
}
