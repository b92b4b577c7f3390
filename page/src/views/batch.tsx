// The trajectories that a step trained on: who waited for what, and who made the tail.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Batch } from "../api";
import { useAnswer } from "../api";
import { phaseVar } from "../colors";
import { Frame } from "../chart/frame";
import { LineChart } from "../chart/line";
import { count, number, seconds, share } from "../format";
import { adjust, go, linkTo, param } from "../state";
import { Anatomy } from "./batch/anatomy";
import { ended, extent, KINDS, seconds as secondsOf, SORTS, tail, type Sort } from "./batch/layout";
import { hatchOf } from "./looks";
import { StepPicker, useStep } from "./steps";
import "./views.css";

const WORDS: Record<Sort, string> = {
  end: "last to end first",
  start: "first to start first",
  seconds: "longest first",
  reward: "lowest reward first",
  turns: "most turns first",
  staleness: "oldest weights first",
};
const KIND_WORDS = {
  queue: "queue: in the engine, before it runs",
  gate: "gate: parked while weights change",
  model: "model",
  tool: "tool",
  reward: "reward",
};

export function View({ run }: { run: string }): JSX.Element {
  const choice = useStep(run);
  const sort = (SORTS as readonly string[]).includes(param("sort")) ? (param("sort") as Sort) : "end";
  const byStaleness = param("colour") === "staleness";
  const answer = useAnswer<Batch>(choice.step === null ? null : `/api/runs/${encodeURIComponent(run)}/batch`, {
    step: choice.step,
    sort,
    limit: 1024,
  });
  const batch = answer.value;
  const rows = batch?.rows ?? [];
  const times = useMemo(() => tail(rows), [rows]);
  const origin = extent(rows, null)[0];
  const noSteps = choice.answer.value && choice.all.length === 0;
  const asked = choice.step === null ? choice.answer : answer;
  const empty = noSteps
    ? "No step has ended yet. The batch is shown once a step has trained on it."
    : batch && rows.length === 0
      ? "No trajectory of this step has a trace: not sampled (VERL_OTEL_ROLLOUT_RATIO, VERL_OTEL_ROLLOUT_CAP), or the loop is not verl's agent loop."
      : null;
  return (
    <div class="view batch-view">
      <Frame
        title="Why does the rollout have a tail?"
        good="Good: rows end together, and the trainer takes the batch right after the last one."
        note={
          batch
            ? `${count(rows.length)}${batch.total > rows.length ? ` of ${count(batch.total)}, ${WORDS[sort]}` : " trajectories"}${times ? `; half ended after ${at(times.half, origin)}, 90 % after ${at(times.most, origin)}, all after ${at(times.last, origin)}` : ""}`
            : undefined
        }
        answer={asked}
        empty={empty}
        height={empty ? 0 : 320}
        actions={<StepPicker choice={choice} />}
        table={() => ({
          caption: `Trajectories of step ${batch?.step}`,
          columns: [
            "uid",
            "session",
            "outcome",
            "start (s)",
            "seconds",
            "reward",
            "turns",
            "tokens",
            "staleness",
            ...KINDS.map((kind) => `${kind} (s)`),
          ],
          rows: rows.map((row) => [
            row.uid,
            row.session,
            row.outcome,
            (row.start - origin) / 1000,
            (row.end - row.start) / 1000,
            row.reward,
            row.turns,
            row.tokens,
            row.staleness,
            ...KINDS.map((kind) => secondsOf([row])[kind]),
          ]),
        })}
      >
        <div class="toolbar">
          <label>
            Order
            <select value={sort} onChange={(event) => adjust({ sort: event.currentTarget.value })}>
              {SORTS.map((one) => (
                <option key={one} value={one}>
                  {WORDS[one]}
                </option>
              ))}
            </select>
          </label>
          <label>
            Colour
            <select
              value={byStaleness ? "staleness" : "kind"}
              onChange={(event) => adjust({ colour: event.currentTarget.value === "staleness" ? "staleness" : null })}
            >
              <option value="kind">by what it did</option>
              <option value="staleness">model calls by age of the weights</option>
            </select>
          </label>
          <ul class="legend-list" aria-label="What the colours mean">
            {KINDS.map((kind) => (
              <li key={kind}>
                <i class={`swatch ${hatchOf(kind) ? "hatch-waiting" : ""}`} style={{ "--of": phaseVar(kind) }} />
                {KIND_WORDS[kind]}
              </li>
            ))}
            <li>
              <i class="swatch thin" style={{ "--of": "var(--phase-unknown)" }} />
              its own code
            </li>
            <li>
              <i class="swatch failed-mark" />
              failed
            </li>
            {byStaleness ? (
              <li>
                <i class="swatch weights" />
                newer weights are stronger
              </li>
            ) : null}
          </ul>
        </div>
        {batch ? <Anatomy batch={batch} byStaleness={byStaleness} onOpen={({ trace, span }) => go("trace", { trace, span })} /> : null}
        {batch && batch.consumed === null ? <p class="muted">When the trainer took the batch was not told, so no line is drawn.</p> : null}
      </Frame>
      {batch && rows.length ? (
        <div class="two">
          <EndTimes batch={batch} />
          <WhereTimeGoes batch={batch} />
        </div>
      ) : null}
      {batch ? (
        <p class="links">
          <a href={linkTo("rollouts", run, { step: batch.step })}>This step's rollouts as a table</a>
        </p>
      ) : null}
    </div>
  );
}

const at = (time: number, origin: number): string => seconds((time - origin) / 1000, 3);

function EndTimes({ batch }: { batch: Batch }): JSX.Element {
  const origin = extent(batch.rows, null)[0];
  const line = useMemo(() => {
    const xs: number[] = [0];
    const ys: number[] = [0];
    for (const { time, count: done } of ended(batch.rows)) {
      // Two points for each corner: a share stays until the next one ends.
      xs.push((time - origin) / 1000, (time - origin) / 1000 + 1e-6);
      ys.push(ys[ys.length - 1]!, done / batch.rows.length);
    }
    return { label: "ended", xs, ys, color: phaseVar("gen") };
  }, [batch]);
  return (
    <Frame
      title="When had they ended?"
      good="Good: a steep rise that ends at once. A long flat top is time for a few."
      note="share of the rows above, by seconds since the first started"
      table={() => ({ columns: ["seconds", "share ended"], rows: line.xs.map((x, n) => [x, line.ys[n]]) })}
    >
      <LineChart
        label={`Share of ${batch.rows.length} trajectories that had ended.`}
        x="elapsed"
        unit="1"
        lines={[line]}
        yLimits={[0, 1]}
        height={180}
        sync=""
      />
    </Frame>
  );
}

function WhereTimeGoes({ batch }: { batch: Batch }): JSX.Element {
  const sums = useMemo(() => secondsOf(batch.rows), [batch]);
  const whole = batch.rows.reduce((sum, row) => sum + (row.end - row.start) / 1000, 0);
  const most = Math.max(...KINDS.map((kind) => sums[kind]), 1e-9);
  return (
    <Frame
      title="What did they spend their time on?"
      good="Good: mostly model. Much queue: too few replicas; much tool or reward: too slow ones."
      note={`all rows together, ${seconds(whole)}`}
    >
      <table class="bars-table">
        <thead class="unseen">
          <tr>
            <th>kind</th>
            <th>seconds</th>
            <th>share</th>
            <th>bar</th>
          </tr>
        </thead>
        <tbody>
          {KINDS.map((kind) => (
            <tr key={kind}>
              <th scope="row">{kind}</th>
              <td class="num">{seconds(sums[kind])}</td>
              <td class="num">{whole > 0 ? share(sums[kind] / whole) : number(null)}</td>
              <td class="wide">
                <i
                  class={`bar-fill ${hatchOf(kind) ? "hatch-waiting" : ""}`}
                  style={{ width: `${(sums[kind] / most) * 100}%`, "--of": phaseVar(kind) }}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Frame>
  );
}
