// One look at a run: what failed or alarms first, then at most seven pictures, each with its question.
import type { Key, Overview, Steps } from "../api";
import { useAnswer } from "../client";
import { AxisChoice } from "../chart/axis-choice";
import { pathOf, useCurves, useMarks, zoomOf } from "../curves";
import { steps as chosenSteps } from "../state";
import { Alive } from "./overview/alive";
import { Alerts, Facts, FailureCard } from "./overview/head";
import { Agreement, Learning, Safety } from "./overview/learning";
import { chooseKeys } from "./overview/keys";
import { Load, Waits, Where } from "./overview/time";

export function View({ run }: { run: string }) {
  const answer = useAnswer<Overview>(pathOf(run));
  const keysAnswer = useAnswer<{ keys: Key[] }>(pathOf(run, "/keys"));
  const stepsAnswer = useAnswer<Steps>(pathOf(run, "/steps"), { bins: 400 });
  const range = chosenSteps.value;
  const zoomed = useAnswer<Steps>(range && (stepsAnswer.value?.width ?? 1) > 1 ? pathOf(run, "/steps") : null, { from: range?.[0], to: range?.[1], bins: 400 });
  const keys = chooseKeys(keysAnswer.value?.keys ?? [], answer.value?.run.reward?.key ?? null);
  const curves = useCurves(run, keys.all);
  const marks = useMarks(run);
  const nothing = keysAnswer.value !== undefined && keys.all.length === 0;
  const shared = { run, curves, answer: nothing ? undefined : curves, marks, keys, known: keysAnswer.value !== undefined, zoom: zoomOf(stepsAnswer.value) };
  if (answer.error && !answer.value) {
    return (
      <p class="failed" role="alert">
        {answer.error.message}{" "}
        <button type="button" onClick={answer.retry}>
          Try again
        </button>
      </p>
    );
  }
  const { value } = answer;
  return (
    <>
      <div class="tools">
        {value && <Facts run={value.run} health={value.health} />}
        <span class="grow" />
        <AxisChoice />
      </div>
      {value?.failure && <FailureCard failure={value.failure} lastGood={value.last_good_step} run={run} />}
      {value && <Alerts alerts={value.alerts} advice={value.advice} run={run} />}
      {value && <Alive overview={value} />}
      <div class="two">
        <Learning {...shared} />
        <Where run={run} answer={stepsAnswer} zoomed={zoomed.value} zoom={zoomOf(stepsAnswer.value, "step")} />
        <Safety {...shared} />
        <Agreement {...shared} />
        <Waits run={run} steps={stepsAnswer.value} />
        <Load run={run} steps={stepsAnswer.value} />
      </div>
    </>
  );
}
