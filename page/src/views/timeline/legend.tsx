// What the colours and hatches of a timeline mean.
import type { JSX } from "preact";
import { comparePhases, phaseVar } from "../../colors";
import { hatchOf, isWeights } from "../looks";

export function Legend({ states, weights }: { states: readonly string[]; weights?: boolean }): JSX.Element {
  const named = states.filter((state) => state && !isWeights(state)).sort((a, b) => Number(!!hatchOf(a)) - Number(!!hatchOf(b)) || comparePhases(a, b));
  return (
    <ul class="legend-list" aria-label="What the colours mean">
      {named.map((state) => {
        const hatch = hatchOf(state);
        return (
          <li key={state}>
            <span
              class={hatch ? `swatch hatch-${hatch}` : "swatch"}
              style={hatch ? {} : { background: state === "error" ? "var(--error)" : phaseVar(state) }}
            />
            {state}
          </li>
        );
      })}
      {weights ? (
        <li>
          <span class="swatch weights" />
          weight version: newer is stronger
        </li>
      ) : null}
      <li>
        <span class="swatch failed-mark" />
        failed
      </li>
    </ul>
  );
}
