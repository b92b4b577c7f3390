// Which setting, version or hardware differs: only what differs, and what a run doesn't have is marked.
import { useMemo } from "preact/hooks";
import type { Configuration } from "../../api";
import { useAnswer } from "../../client";
import { Frame } from "../../chart/frame";
import { Windowed } from "../../chart/table";
import { pathOf } from "../../curves";
import { ABSENT } from "../../format";
import { adjust, param } from "../../state";
import { flat } from "./difference";

const PLACES = [0, 1, 2, 3, 4, 5, 6, 7];
/** Differ always and say nothing. */
const NAMES = /(^|\.)(experiment_name|default_local_dir|verl\.run\.id|service\.instance\.id)$/;

interface Row {
  kind: string;
  name: string;
  values: (string | undefined)[];
}

function rowsOf(answers: readonly (Configuration | undefined)[], all: boolean): Row[] {
  const rows: Row[] = [];
  for (const kind of ["config", "versions", "info"] as const) {
    const maps = answers.map((one) => (one ? flat(one[kind]) : new Map<string, string>()));
    const names = [...new Set(maps.flatMap((map) => [...map.keys()]))].sort();
    for (const name of names) {
      const values = maps.map((map) => map.get(name));
      const differs = new Set(values).size > 1;
      if (all || (differs && !NAMES.test(name))) rows.push({ kind: kind === "config" ? "setting" : kind === "versions" ? "version" : "machine", name, values });
    }
  }
  return rows;
}

export function Settings({ runs, names }: { runs: readonly string[]; names: readonly string[] }) {
  const answers = PLACES.map((place) => useAnswer<Configuration>(runs[place] === undefined ? null : pathOf(runs[place], "/config"))).slice(0, runs.length);
  const all = param("all") === "yes";
  const values = answers.map((one) => one.value);
  const rows = useMemo(() => rowsOf(values, all), [...PLACES.map((place) => values[place]), all, runs.length]);
  const words = param("q").toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter((row) => words.every((word) => row.name.toLowerCase().includes(word)));
  const failed = answers.find((one) => one.error);
  const ready = answers.every((one) => one.value || one.error);
  return (
    <Frame
      title="Which settings, versions or machines differ?"
      note={ready ? `${shown.length} ${all ? "in all" : "that differ"}` : null}
      answer={{
        value: ready && values.some(Boolean) ? values : undefined,
        error: failed?.error,
        loading: !ready,
        stale: false,
        retry: () => answers.forEach((one) => one.error && one.retry()),
      }}
      empty={ready && rows.length === 0 ? "Nothing differs but names: same settings, same versions, same machines." : null}
      actions={
        <>
          <input type="search" data-search aria-label="Search settings" placeholder="Search (/)" value={param("q")} onInput={(event) => adjust({ q: event.currentTarget.value })} />
          <label class="choice">
            <input type="checkbox" checked={all} onChange={(event) => adjust({ all: event.currentTarget.checked ? "yes" : null })} /> equal ones too
          </label>
        </>
      }
    >
      <Windowed
        label="Differing settings"
        columns={[
          { title: "Name", width: "minmax(20em, 1.4fr)" },
          { title: "Kind", width: "6em" },
          ...runs.map((run, index) => ({
            title: (
              <span title={run}>
                <i class="swatch" style={{ "--of": `var(--run-${index})` }} aria-hidden="true" /> {names[index]}
              </span>
            ),
            width: "minmax(10em, 1fr)",
          })),
        ]}
        count={shown.length}
        height={340}
        row={(index) => {
          const row = shown[index] as Row;
          const [first] = row.values;
          return [
            <code key="name" title={row.name}>{row.name}</code>,
            <span key="kind" class="muted">{row.kind}</span>,
            ...row.values.map((value, place) =>
              value === undefined ? (
                <span key={place} class="muted" title="This run doesn't have it">{ABSENT} not set</span>
              ) : (
                <code key={place} class={place > 0 && value !== first ? "differs" : ""} title={value}>{value}</code>
              ),
            ),
          ];
        }}
      />
    </Frame>
  );
}
