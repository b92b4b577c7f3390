// The choices of a timeline: filter, colour, order, and buttons for what the keys do.
import type { JSX } from "preact";
import { adjust, lanes } from "../../state";
import type { Order } from "./cells";
import { HELP, type Filter } from "./grammar";

export interface ToolbarProps {
  filter: Filter;
  states: readonly string[];
  order: Order;
  byWeights: boolean;
  many: boolean;
  onFit: () => void;
  onStep: (direction: 1 | -1) => void;
  onZoom: (factor: number) => void;
}

export function Toolbar({ filter, order, byWeights, many, onFit, onStep, onZoom }: ToolbarProps): JSX.Element {
  return (
    <div class="toolbar">
      <label class="grow">
        Rows
        <input
          type="search"
          data-search
          value={lanes.value}
          placeholder={HELP}
          title={`Terms that must all hold: ${HELP}`}
          aria-invalid={filter.mistakes.length > 0}
          onInput={(event) => adjust({ lanes: event.currentTarget.value || null })}
        />
      </label>
      <label>
        Colour
        <select
          value={byWeights ? "weights" : "phase"}
          onChange={(event) => adjust({ colour: event.currentTarget.value === "weights" ? "weights" : null })}
        >
          <option value="phase">by phase</option>
          <option value="weights">by weight version</option>
        </select>
      </label>
      {many ? (
        <label>
          Worst by
          <select value={order} onChange={(event) => adjust({ order: event.currentTarget.value })}>
            <option value="gap">seconds over the median</option>
            <option value="idle">idle share</option>
            <option value="errors">errors</option>
          </select>
        </label>
      ) : null}
      <span class="button-row">
        <button type="button" title="The step before ([)" onClick={() => onStep(-1)}>
          ← step
        </button>
        <button type="button" title="The step after (])" onClick={() => onStep(1)}>
          step →
        </button>
        <button type="button" title="Zoom out (−)" aria-label="Zoom out" onClick={() => onZoom(2)}>
          −
        </button>
        <button
          type="button"
          title="Zoom in (+); Ctrl and wheel, or drag over the picture"
          aria-label="Zoom in"
          onClick={() => onZoom(0.5)}
        >
          +
        </button>
        <button type="button" title="The whole run (f)" onClick={onFit}>
          Fit
        </button>
      </span>
      {filter.mistakes.length ? (
        <p class="hint" role="status">
          {filter.mistakes.join("; ")}
        </p>
      ) : null}
    </div>
  );
}
