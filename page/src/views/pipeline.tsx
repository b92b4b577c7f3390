// From rollout to trainer: queues, weights, staleness.
import type { JSX } from "preact";
import { PanelsView } from "./panels/panels";
import "./views.css";

export function View({ run }: { run: string }): JSX.Element {
  return (
    <PanelsView
      run={run}
      part="pipeline"
      empty="Nothing of the pipeline was told yet: queues, weight versions and staleness come with the first step."
    />
  );
}
