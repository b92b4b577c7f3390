// Is it alive, doing what, since when, until when? Open phases against their own past, and the rollout's progress.
import type { OpenPhase, Overview, Progress } from "../../api";
import { Frame } from "../../chart/frame";
import { phaseVar } from "../../colors";
import { ABSENT, count, number, seconds } from "../../format";

const MOST = 6;

const nameOf = ({ name, role, rank }: OpenPhase): string =>
  `${name}${role && rank !== null ? ` · ${role} ${rank}` : ""}`;

/** A bar as long as it has been open, with ticks at its usual length; all on one scale. */
function PhaseBar({ phase, scale }: { phase: OpenPhase; scale: number }) {
  const at = (value: number): string => `${Math.min(100, (100 * value) / scale)}%`;
  const usual = phase.median_s === null ? "no earlier one to compare" : `median ${seconds(phase.median_s)}, p95 ${seconds(phase.p95_s)}`;
  return (
    <>
      <span class={phase.stuck ? "stuck" : ""}>
        {phase.stuck && "✕ "}
        {nameOf(phase)}
      </span>
      <span class="track" title={usual}>
        <span class="fill" style={{ width: at(phase.open_s), background: phaseVar(phase.name) }} />
        {phase.median_s !== null && <span class="tick" style={{ left: at(phase.median_s) }} />}
        {phase.p95_s !== null && <span class="tick p95" style={{ left: at(phase.p95_s) }} />}
      </span>
      <span class="num">
        {seconds(phase.open_s)} <span class="muted">{phase.stuck ? `stuck: ${usual}` : usual}</span>
      </span>
    </>
  );
}

function ProgressBar({ progress }: { progress: Progress }) {
  const { expected, done, failed, running, pending } = progress;
  const all = expected ?? done + failed + running + (pending ?? 0);
  const part = (value: number): string => `${all > 0 ? (100 * value) / all : 0}%`;
  const facts = [
    `${count(done)} of ${expected === null ? ABSENT : count(expected)} done`,
    failed > 0 ? `${count(failed)} failed` : "",
    `${count(running)} running${progress.waits_for ? `, most wait for: ${progress.waits_for}` : ""}`,
    progress.rate === null ? "" : `${number(progress.rate, 3)}/s`,
    progress.left_s === null ? "" : `${seconds(progress.left_s)} left`,
    progress.oldest_s === null ? "" : `oldest ${seconds(progress.oldest_s)}`,
  ].filter(Boolean);
  return (
    <>
      <span>{progress.validation ? "validation rollout" : "rollout"}</span>
      <span class="track" role="img" aria-label={facts.join(", ")}>
        <span class="fill" style={{ width: part(done), background: "var(--phase-gen)" }} />
        <span class="fill" style={{ left: part(done), width: part(failed), background: "var(--error)" }} />
        <span class="fill running" style={{ left: part(done + failed), width: part(running) }} />
      </span>
      <span class="num">{facts.join(" · ")}</span>
    </>
  );
}

export function Alive({ overview }: { overview: Overview }) {
  const { phases_open: phases, progress, run } = overview;
  if (run.status !== "running") return null;
  const sorted = [...phases].sort((a, b) => Number(b.stuck) - Number(a.stuck) || b.open_s - a.open_s);
  const scale = 1.05 * Math.max(1e-3, ...phases.flatMap((one) => [one.open_s, one.p95_s ?? 0]));
  const shown = sorted.slice(0, MOST);
  return (
    <Frame
      class="alive"
      title="Is it alive?"
      good="Good: what is open is shorter than its p95 (the second tick; the first is its median)."
      empty={phases.length === 0 && progress === null ? "No phase is open now: between two steps, starting, or the run sends no gauges (verl.phase.open.duration)." : null}
      note={sorted.length > MOST ? `${MOST} of ${sorted.length} open phases: the stuck and the longest` : null}
      table={() => ({
        columns: ["phase", "role", "rank", "open (s)", "median (s)", "p95 (s)", "stuck"],
        rows: sorted.map((one) => [one.name, one.role, one.rank, one.open_s, one.median_s, one.p95_s, one.stuck ? "yes" : "no"]),
      })}
    >
      <div class="bars">
        {shown.map((phase) => (
          <PhaseBar key={nameOf(phase)} phase={phase} scale={scale} />
        ))}
        {progress && <ProgressBar progress={progress} />}
      </div>
    </Frame>
  );
}
