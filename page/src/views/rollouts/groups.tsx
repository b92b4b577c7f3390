// Groups of a step: trajectories of one prompt. Equal rewards teach nothing.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useAnswer, type Group, type Trajectories, type Trajectory } from "../../api";
import { Frame } from "../../chart/frame";
import { magnitude } from "../../colors";
import { Windowed } from "../../chart/table";
import { count, number, seconds } from "../../format";
import { adjust, linkTo, param } from "../../state";
import { OUTCOME_MARKS } from "./model";

const SIGNS: Record<Group["signal"], string> = { mixed: "◐", "all right": "●", "all wrong": "○", equal: "=", unknown: "?" };

export function Groups({ run, step }: { run: string; step: number }): JSX.Element {
  const answer = useAnswer<{ groups: Group[] }>(`/api/runs/${encodeURIComponent(run)}/groups`, { step });
  const [sort, setSort] = useState<{ by: "spread" | "mean"; up: boolean }>({ by: "spread", up: false });
  const groups = useMemo(() => {
    const worth = (group: Group): number => group[sort.by] ?? -Infinity;
    return [...(answer.value?.groups ?? [])].sort((a, b) => (worth(a) - worth(b)) * (sort.up ? 1 : -1));
  }, [answer.value, sort]);
  const rewards = useMemo(() => groups.flatMap((group) => group.rewards).filter((one): one is number => one !== null), [groups]);
  const [low, high] = [rewards.reduce((a, b) => Math.min(a, b), 0), rewards.reduce((a, b) => Math.max(a, b), 0)];
  const mixed = groups.filter(({ signal }) => signal === "mixed").length;
  const chosen = param("group");
  const header = (by: "spread" | "mean") => ({
    sorted: sort.by === by && (sort.up ? ("ascending" as const) : ("descending" as const)),
    onSort: () => setSort({ by, up: sort.by === by && !sort.up }),
  });
  return (
    <>
      <Frame
        title={`Which groups of step ${step} carry a signal?`}
        good="Good: most are mixed. A group whose rewards are all equal has no advantage."
        note={groups.length ? `${mixed} of ${groups.length} mixed` : undefined}
        answer={answer}
        empty={
          answer.value && !groups.length ? "No groups: trajectories of this step carry no verl.sample.uid, or none has a trace." : null
        }
      >
        <Windowed
          label={`Groups of step ${step}`}
          columns={[
            { title: "signal", width: "100px" },
            { title: "prompt (uid)", width: "minmax(110px, 1fr)" },
            { title: `rewards, ${number(low, 3)} to ${number(high, 3)}`, width: "minmax(160px, 1.4fr)" },
            { title: "mean", width: "76px", number: true, ...header("mean") },
            { title: "spread", width: "76px", number: true, help: "Standard deviation of its rewards", ...header("spread") },
          ]}
          count={groups.length}
          height={260}
          rowHeight={26}
          row={(index) => {
            const { uid, signal, rewards: own, mean, spread } = groups[index]!;
            return [`${SIGNS[signal]} ${signal}`, uid, <Rewards of={own} low={low} high={high} />, number(mean, 3), number(spread, 3)];
          }}
          rowClass={(index) => (groups[index]!.uid === chosen ? "chosen" : "")}
          onOpen={(index) => adjust({ group: groups[index]!.uid === chosen ? null : groups[index]!.uid })}
        />
      </Frame>
      {chosen ? <SideBySide run={run} step={step} uid={chosen} /> : null}
    </>
  );
}

/** A cell for each trajectory, best first: equal rewards are seen as equal, however many. */
function Rewards({ of, low, high }: { of: readonly (number | null)[]; low: number; high: number }): JSX.Element {
  const sorted = [...of].sort((a, b) => (b ?? -Infinity) - (a ?? -Infinity));
  return (
    <span class="reward-cells" role="img" aria-label={`Rewards ${sorted.map((one) => number(one, 3)).join(", ")}`}>
      {sorted.map((one, index) => (
        <i
          key={index}
          class={one === null ? "absent" : ""}
          title={one === null ? "no reward told" : number(one)}
          style={one === null ? {} : { background: magnitude((one - low) / (high - low || 1)) }}
        />
      ))}
    </span>
  );
}

/** The trajectories of one prompt beside each other, best first. */
function SideBySide({ run, step, uid }: { run: string; step: number; uid: string }): JSX.Element {
  const answer = useAnswer<Trajectories>(`/api/runs/${encodeURIComponent(run)}/trajectories`, {
    step,
    uid,
    sort: "reward",
    desc: true,
    limit: 64,
  });
  const rows = answer.value?.rows ?? [];
  return (
    <Frame
      title="How do the trajectories of this prompt differ?"
      note={`${uid}, best first${answer.value && answer.value.total > rows.length ? `, ${rows.length} of ${answer.value.total}` : ""}`}
      answer={answer}
      actions={
        <button type="button" class="quiet" onClick={() => adjust({ group: null })}>
          Close
        </button>
      }
    >
      <div class="cards">
        {rows.map((row) => (
          <Card key={row.trace + row.span} run={run} row={row} />
        ))}
      </div>
    </Frame>
  );
}

export function Card({ run, row, title }: { run: string; row: Trajectory; title?: string }): JSX.Element {
  const facts: [string, string][] = [
    ["turns", count(row.turns)],
    ["tokens", count(row.response_tokens)],
    ["seconds", seconds(row.seconds)],
    ["tools", count(row.tool_calls)],
    ["stopped by", row.stop_reason ?? "—"],
    ...Object.entries(row.parts).map(([name, value]): [string, string] => [name, number(value, 3)]),
  ];
  return (
    <article class="card">
      <h4>
        {title ? <span class="muted">{title} </span> : null}
        <b>{number(row.reward, 3)}</b>{" "}
        <span class={row.outcome === "failed" ? "error-text" : "muted"}>
          {OUTCOME_MARKS[row.outcome ?? ""] ?? ""} {row.outcome ?? ""}
        </span>
      </h4>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p>
        <a href={linkTo("trace", run, { trace: row.trace, span: row.span })}>Trace</a>{" "}
        <button type="button" class="quiet small" onClick={() => adjust({ open: `${row.trace}/${row.span}` })}>
          Text
        </button>
      </p>
    </article>
  );
}
