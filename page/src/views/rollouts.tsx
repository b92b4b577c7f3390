// What the model did: trajectories as a table, their groups, the best and worst, tools and rewards.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Signal, Trajectories } from "../api";
import { isReport, useAnswer } from "../api";
import { phaseVar } from "../colors";
import { Frame } from "../chart/frame";
import { StackChart } from "../chart/stack";
import { count, number, seconds } from "../format";
import { adjust, linkTo, param } from "../state";
import { Distribution } from "./rollouts/distribution";
import { Card, Groups } from "./rollouts/groups";
import { COLUMNS } from "./rollouts/model";
import { Table } from "./rollouts/table";
import { Text } from "./rollouts/text";
import { Tools } from "./rollouts/tools";
import { StepPicker, useStep } from "./steps";
import "./views.css";

const PAGE = 200;
/** What the server gives at once. */
const MOST = 1000;

export function View({ run }: { run: string }): JSX.Element {
  const choice = useStep(run, true);
  const path = `/api/runs/${encodeURIComponent(run)}/trajectories`;
  const [limit, setLimit] = useState(PAGE);
  const [offset, setOffset] = useState(0);
  const [sort, descending] = [param("sort") || "start", param("desc") !== "no"];
  const validation = param("validation") === "yes" ? true : param("validation") === "no" ? false : null;
  const filter = { step: choice.step, validation, uid: param("uid") || null, search: param("q") || null };
  useEffect(() => {
    setLimit(PAGE);
    setOffset(0);
  }, [JSON.stringify(filter), sort, descending]);
  const answer = useAnswer<Trajectories>(path, { ...filter, sort, desc: descending, limit, offset });
  const { rows = [], total = 0, distributions } = answer.value ?? {};
  const opened = param("open");
  const filtered = Object.values(filter).some((one) => one !== null);
  const empty =
    answer.value && total === 0 && !filtered
      ? "No trajectories yet. They come with verl's agent loop once rollouts run and are sampled (VERL_OTEL_ROLLOUT_RATIO, VERL_OTEL_ROLLOUT_CAP)."
      : null;
  return (
    <div class="view rollouts-view">
      <Frame
        title={choice.step === null ? "What did the model do?" : `What did the model do in step ${choice.step}?`}
        good="Good: few that stop by length, few failed, and turns and seconds without a long tail."
        note={answer.value ? `${count(rows.length)} of ${count(total)} trajectories${offset ? `, after the first ${count(offset)}` : ""}` : undefined}
        answer={answer}
        empty={empty}
        height={empty ? 0 : 420}
        actions={<StepPicker choice={choice} every />}
        table={() => ({
          caption: "Trajectories",
          columns: [...COLUMNS.map(({ title }) => title), "trace"],
          rows: rows.map((row) => [...COLUMNS.map(({ text }) => text(row)), row.trace]),
        })}
      >
        <div class="toolbar">
          <Search name="q" label="Find" placeholder="words, outcome:failed, stop:length, reward<0.5, turns>=8" />
          <label>
            Kind
            <select value={param("validation")} onChange={(event) => adjust({ validation: event.currentTarget.value || null })}>
              <option value="">all</option>
              <option value="no">training</option>
              <option value="yes">validation</option>
            </select>
          </label>
          {param("uid") ? (
            <button type="button" onClick={() => adjust({ uid: null })}>
              Prompt {param("uid")} ×
            </button>
          ) : null}
        </div>
        <div class="distributions">
          <Distribution title="reward" of={distributions?.reward ?? null} text={(value) => number(value, 3)} color={phaseVar("reward")} />
          <Distribution title="response tokens" of={distributions?.tokens ?? null} text={count} color={phaseVar("gen")} />
          <Distribution title="turns" of={distributions?.turns ?? null} text={count} color={phaseVar("gen")} />
          <Distribution title="seconds" of={distributions?.seconds ?? null} text={seconds} color={phaseVar("unknown")} />
        </div>
        <Table
          key={offset}
          rows={rows}
          sort={sort}
          descending={descending}
          opened={opened}
          onSort={(next) => adjust({ sort: next, desc: next === sort && descending ? "no" : null })}
          onOpen={({ trace, span }) => adjust({ open: opened === `${trace}/${span}` ? null : `${trace}/${span}` })}
          onEnd={() => rows.length >= limit && limit < MOST && setLimit(limit + PAGE)}
        />
        {total > MOST && !isReport ? <Pager offset={offset} total={total} onMove={(next) => (setLimit(PAGE), setOffset(next))} /> : null}
      </Frame>
      {opened ? <Opened run={run} opened={opened} /> : null}
      {choice.step === null ? <SignalByStep run={run} /> : <Extremes run={run} step={choice.step} />}
      {choice.step !== null ? <Groups run={run} step={choice.step} /> : null}
      <Tools run={run} />
    </div>
  );
}

/** Leads to the rows after those that the server gives at once. */
function Pager({ offset, total, onMove }: { offset: number; total: number; onMove: (offset: number) => void }): JSX.Element {
  return (
    <p class="button-row">
      <button type="button" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - MOST))}>
        ← {count(MOST)} before
      </button>
      <button type="button" disabled={offset + MOST >= total} onClick={() => onMove(offset + MOST)}>
        {count(MOST)} after →
      </button>
    </p>
  );
}

/** Typing asks the server only once it rests. */
function Search({ name, label, placeholder }: { name: string; label: string; placeholder: string }): JSX.Element {
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return (
    <label class="grow">
      {label}
      <input
        type="search"
        data-search
        defaultValue={param(name)}
        placeholder={placeholder}
        onInput={(event) => {
          const { value } = event.currentTarget;
          window.clearTimeout(timer.current);
          timer.current = window.setTimeout(() => adjust({ [name]: value || null }), 250);
        }}
      />
    </label>
  );
}

function Opened({ run, opened }: { run: string; opened: string }): JSX.Element {
  const [trace = "", span = ""] = opened.split("/");
  return (
    <Frame
      title="What was said in this one?"
      note={trace}
      actions={
        <>
          <a href={linkTo("trace", run, { trace, span })}>Its trace</a>
          <button type="button" class="quiet" onClick={() => adjust({ open: null })}>
            Close
          </button>
        </>
      }
    >
      <Text run={run} trace={trace} span={span} />
    </Frame>
  );
}

const FEW = 3;

function Extremes({ run, step }: { run: string; step: number }): JSX.Element {
  const path = `/api/runs/${encodeURIComponent(run)}/trajectories`;
  const best = useAnswer<Trajectories>(path, { step, sort: "reward", desc: true, limit: FEW });
  const worst = useAnswer<Trajectories>(path, { step, sort: "reward", desc: false, limit: FEW });
  const known = (answer: typeof best) => (answer.value?.rows ?? []).filter(({ reward }) => reward !== null);
  const none = best.value && !known(best).length;
  return (
    <Frame
      title={`The best and the worst of step ${step}`}
      answer={best}
      empty={none ? "No trajectory of this step carries a reward: the trainer computes it later, or rewards were not told." : null}
    >
      <div class="cards">
        {known(best).map((row) => (
          <Card key={`best${row.trace}${row.span}`} run={run} row={row} title="best" />
        ))}
        {known(worst).map((row) => (
          <Card key={`worst${row.trace}${row.span}`} run={run} row={row} title="worst" />
        ))}
      </div>
    </Frame>
  );
}

function SignalByStep({ run }: { run: string }): JSX.Element {
  const answer = useAnswer<Signal>(`/api/runs/${encodeURIComponent(run)}/signal`);
  const value = answer.value;
  const layers = value
    ? [
        { label: "all wrong", ys: value.all_wrong, color: "var(--phase-unknown)" },
        { label: "mixed", ys: value.mixed, color: phaseVar("gen") },
        { label: "all right", ys: value.all_right, color: phaseVar("update_weights") },
        { label: "filtered", ys: value.filtered, color: "var(--phase-wait)", hatched: true },
      ]
    : [];
  return (
    <Frame
      title="Does the batch carry a signal?"
      good="Good: mostly mixed. Click or press Enter on a step for its groups."
      note="groups by step"
      answer={answer}
      empty={value && !value.steps.length ? "No step has told of its groups yet." : null}
      height={180}
    >
      {value ? (
        <StackChart
          label="Groups by step: all wrong, mixed, all right, filtered."
          x="step"
          unit="{group}"
          xs={value.steps}
          layers={layers}
          shares
          totalLabel="groups"
          onOpen={(step) => adjust({ step: Math.round(step) })}
        />
      ) : null}
    </Frame>
  );
}
