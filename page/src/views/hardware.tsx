// The machines: is one sick, and is hardware the limit?
import type { JSX } from "preact";
import { Gpus, isGpus } from "./panels/gpus";
import { PanelsView } from "./panels/panels";
import { Profiles } from "./panels/profiles";
import "./views.css";

export function View({ run }: { run: string }): JSX.Element {
  return (
    <div class="view">
      <PanelsView
        run={run}
        part="hardware"
        empty="No host has told of its hardware yet. It comes every export interval from each node that a process of the run is on."
        head={(tables) => {
          const gpus = tables.find((one) => isGpus(one) && one.rows.length > 0);
          return { picture: gpus ? <Gpus table={gpus} run={run} /> : null, rest: tables.filter((one) => one !== gpus) };
        }}
      />
      <Profiles run={run} />
    </div>
  );
}
