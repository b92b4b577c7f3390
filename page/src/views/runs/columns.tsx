// The columns of the list of runs, and what they sort by.
import type { ComponentChildren } from "preact";
import type { Run } from "../../api";
import { Spark } from "../../chart/spark";
import { ABSENT, ago, bytes, date, number, seconds } from "../../format";
import { StatusMark } from "../../status";

const last = (run: Run): number | null => run.reward?.points.at(-1)?.[1] ?? null;
const duration = (run: Run): number => Math.max(0, ((run.ended ?? run.updated) - run.started) / 1000);

export const SORTS = {
  name: (run: Run) => run.experiment ?? run.id,
  status: (run: Run) => run.status,
  step: (run: Run) => run.step,
  reward: last,
  started: (run: Run) => run.started,
  duration,
  updated: (run: Run) => run.updated,
  project: (run: Run) => run.project,
  host: (run: Run) => run.host,
  attempts: (run: Run) => run.attempts,
  size: (run: Run) => run.bytes,
} satisfies Record<string, (run: Run) => string | number | null>;
export type SortName = keyof typeof SORTS;

interface RunColumn {
  title: ComponentChildren;
  sort?: SortName;
  number?: boolean;
  width: string;
  help?: string;
}

/** The first two, choice and name, are made by the view. */
export const COLUMNS: readonly RunColumn[] = [
  { title: <span class="unseen">Compare</span>, width: "34px" },
  { title: "Run", sort: "name", width: "minmax(15em, 2fr)" },
  { title: "Status", sort: "status", width: "8.2em" },
  { title: "Step", sort: "step", width: "11.5em" },
  { title: "Reward", sort: "reward", width: "13em", help: "Of training: its course and its last value" },
  { title: "Started", sort: "started", width: "10.5em" },
  { title: "Duration", sort: "duration", number: true, width: "7.5em" },
  { title: "Newest data", sort: "updated", number: true, width: "8em" },
  { title: "Project", sort: "project", width: "minmax(6em, 1fr)" },
  { title: "Model", width: "minmax(7em, 1fr)" },
  { title: "Host", sort: "host", width: "6em" },
  { title: "Attempts", sort: "attempts", number: true, width: "6em", help: "How often it was started: resumed from a checkpoint" },
  { title: "Size", sort: "size", number: true, width: "6em", help: "Of its database on disk" },
];

function StepOf({ run }: { run: Run }) {
  if (run.step === null) return <span title="No step has been logged yet">{ABSENT}</span>;
  const share = run.total_steps ? Math.min(1, run.step / run.total_steps) : null;
  return (
    <span class="step-of">
      <span class="num">
        {number(run.step)}
        {run.total_steps === null ? "" : ` / ${number(run.total_steps)}`}
      </span>
      {share !== null && (
        <span class="meter" aria-hidden="true">
          <span style={{ width: `${share * 100}%` }} />
        </span>
      )}
    </span>
  );
}

function RewardOf({ run }: { run: Run }) {
  if (!run.reward || run.reward.points.length === 0) return <span title="No reward has been logged">{ABSENT}</span>;
  return (
    <span class="reward-of" title={run.reward.key}>
      <Spark points={run.reward.points} /> <span class="num">{number(last(run), 3)}</span>
    </span>
  );
}

/** The cells after the name. `now`: ms, for what is counted from now. */
export function cells(run: Run, now: number): ComponentChildren[] {
  return [
    <StatusMark key="status" status={run.status} />,
    <StepOf key="step" run={run} />,
    <RewardOf key="reward" run={run} />,
    date(run.started),
    seconds(duration(run)),
    run.status === "running" ? ago(run.updated, now) : date(run.updated).slice(5),
    run.project ?? ABSENT,
    <span key="model" title={run.model ?? undefined}>{run.model?.split("/").at(-1) ?? ABSENT}</span>,
    run.host ?? ABSENT,
    number(run.attempts),
    bytes(run.bytes),
  ];
}
