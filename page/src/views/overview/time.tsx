// Where does the time go, who waits for whom, who is loaded?
import { useMemo, useState } from "preact/hooks";
import type { Panel, Panels, Steps } from "../../api";
import { useAnswer, type Answer } from "../../client";
import { Segments } from "../../chart/axis-choice";
import { Frame } from "../../chart/frame";
import { LineChart } from "../../chart/line";
import { StackChart, type Layer } from "../../chart/stack";
import { comparePhases, phaseVar } from "../../colors";
import { pathOf, zoomOf } from "../../curves";
import { seconds, xText } from "../../format";
import { go, type Range } from "../../state";

interface WhereProps {
  run: string;
  answer: Answer<Steps>;
  /** The chosen steps alone, where the whole is binned. */
  zoomed: Steps | undefined;
  zoom: { range?: Range | null; onRange?: (range: Range | null) => void };
}

export function Where({ run, answer, zoomed, zoom }: WhereProps) {
  const [as, setAs] = useState("seconds");
  const value = zoomed ?? answer.value;
  const names = useMemo(() => Object.keys(value?.phases ?? {}).sort(comparePhases), [value]);
  const layers = useMemo<Layer[]>(
    () => [
      ...names.map((name) => ({ label: name, ys: value?.phases[name] ?? [], color: phaseVar(name) })),
      { label: "rest", ys: value?.rest ?? [], color: "var(--phase-wait)", hatched: true },
    ],
    [value, names],
  );
  const totals = (value?.total ?? []).filter((one) => one !== null);
  const middle = [...totals].sort((a, b) => a - b)[Math.floor(totals.length / 2)];
  return (
    <Frame
      title="Which phase takes the step?"
      good="Good: bars stay level, gen and updates dominate, the hatched rest that no phase explains is thin."
      note={value && totals.length ? `median ${seconds(middle)} a step${value.width > 1 ? `, ${value.width} steps a bar, times added` : ""}` : null}
      answer={answer}
      height={240}
      empty={value?.steps.length === 0 ? "No step has ended yet; the first bar comes with it. What is open now stands above." : null}
      actions={<Segments label="Bars as" options={[["seconds", "Seconds"], ["shares", "%"]]} value={as} onChoose={setAs} />}
      table={() => ({
        columns: ["step", "total (s)", ...names.map((name) => `${name} (s)`), "rest (s)"],
        rows: (value?.steps ?? []).map((step, index) => [step, value?.total[index], ...names.map((name) => value?.phases[name]?.[index]), value?.rest[index]]),
      })}
    >
      {value && (
        <StackChart
          label={`Seconds of each phase by step, ${value.steps.length} bars.`}
          x="step"
          unit="s"
          height={200}
          xs={value.steps}
          width={value.width}
          layers={layers}
          shares={as === "shares"}
          totalLabel="step"
          onOpen={(step) => openStep(run, value, step)}
          {...zoom}
        />
      )}
    </Frame>
  );
}

function openStep(run: string, value: Steps, step: number): void {
  const trace = value.trace[value.steps.indexOf(step)];
  if (trace) go("trace", { trace }, run);
  else go("timeline", { steps: `${step}-${step + value.width}` }, run);
}

/** Of runs that take turns: while one side works the other waits. Null where phases don't tell. */
function turns(steps: Steps | undefined): Panel | null {
  const gen = steps?.phases.gen;
  if (!steps || !gen || steps.steps.length === 0) return null;
  const share = steps.total.map((total, index) => (total && gen[index] != null ? (gen[index] ?? 0) / total : null));
  return {
    id: "turns",
    title: "",
    good: "",
    unit: "1",
    x: steps.steps,
    lines: [
      { name: "trainer waits for gen", ys: share },
      { name: "rollout waits for the trainer", ys: share.map((one) => (one === null ? null : 1 - one)) },
    ],
    threshold: null,
    why_empty: null,
  };
}

function PanelPicture({ panel, x, limits, steps }: { panel: Panel; x: "step" | "time"; limits?: Range; steps: Steps | undefined }) {
  return (
    <LineChart
      label={`${panel.lines.map((one) => one.name).join(", ")} by ${x}.`}
      x={x}
      unit={panel.unit}
      height={170}
      lines={panel.lines.map((one, index) => ({ label: one.name, xs: panel.x, ys: one.ys, color: `var(--run-${index % 8})` }))}
      thresholds={panel.threshold === null ? [] : [{ value: panel.threshold, label: String(panel.threshold) }]}
      {...(limits ? { yLimits: limits } : {})}
      {...zoomOf(steps, x)}
    />
  );
}

const tableOf = (panel: Panel | null | undefined, x: "step" | "time") => ({
  columns: [x, ...(panel?.lines.map((one) => one.name) ?? [])],
  rows: (panel?.x ?? []).map((at, index) => [xText(at, x), ...(panel?.lines.map((one) => one.ys[index]) ?? [])]),
});

export function Waits({ run, steps }: { run: string; steps: Steps | undefined }) {
  const answer = useAnswer<Panels>(pathOf(run, "/pipeline"), { width: 600 });
  const measured = answer.value?.panels.find((one) => one.id === "waits" && one.x.length > 0);
  const derived = useMemo(() => (measured ? null : turns(steps)), [measured, steps]);
  const panel = measured ?? derived;
  const x = measured ? "time" : "step";
  return (
    <Frame
      title="Who waits for whom?"
      good="Good: both lines are low; a high one names the side that is starved."
      note={measured ? null : derived ? "from the phases: trainer and rollout take turns" : null}
      answer={panel ? { ...answer, value: panel, error: undefined } : answer}
      height={220}
      empty={panel ? null : (answer.value?.panels.find((one) => one.id === "waits")?.why_empty ?? "No step has ended yet, so nobody's waiting is known.")}
      table={() => tableOf(panel, x)}
    >
      {panel && <PanelPicture panel={panel} x={x} limits={[0, 1]} steps={steps} />}
    </Frame>
  );
}

export function Load({ run, steps }: { run: string; steps: Steps | undefined }) {
  const answer = useAnswer<Panels>(pathOf(run, "/engine"), { width: 600 });
  const panels = answer.value?.panels ?? [];
  const panel = panels.find((one) => one.id === "load") ?? panels.find((one) => /running|load/.test(one.id)) ?? panels[0];
  return (
    <Frame
      title="Is a replica overloaded or starved?"
      good={panel?.good || "Good: replicas carry alike; none stands at 0 while others queue."}
      note={panel?.title && panel.id !== "load" ? panel.title : null}
      answer={answer}
      height={220}
      empty={!panel ? "The engine has told nothing yet." : panel.x.length === 0 ? (panel.why_empty ?? "The engine has told nothing yet.") : null}
      table={() => tableOf(panel, "time")}
    >
      {panel && <PanelPicture panel={panel} x="time" steps={steps} />}
    </Frame>
  );
}
