// All runs: what they are, how far they are, how they do. Choose some to compare, open one.
import type { Run } from "../api";
import { useAnswer } from "../client";
import { Frame } from "../chart/frame";
import { Windowed, type Column } from "../chart/table";
import { now } from "../live";
import { adjust, go, linkTo, listText, param, runs as chosen, selectRuns } from "../state";
import { cells, COLUMNS, SORTS, type SortName } from "./runs/columns";

const matches = (run: Run, words: readonly string[]): boolean => {
  const text = [run.id, run.project, run.experiment, run.status, run.host, run.model, run.algorithm, run.engine, run.trainer].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
};

function sorted(all: readonly Run[], by: SortName, down: boolean): Run[] {
  const value = SORTS[by];
  return [...all].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    // What is absent stands last in both directions.
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    const order = typeof x === "string" ? x.localeCompare(String(y)) : x - Number(y);
    return down ? -order : order;
  });
}

export function View(_: { run: string }) {
  const answer = useAnswer<{ runs: Run[] }>("/api/runs");
  const words = param("q").toLowerCase().split(/\s+/).filter(Boolean);
  const [by = "started", direction = "down"] = (param("sort") || "started:down").split(":") as [SortName?, string?];
  const down = direction === "down";
  const all = answer.value?.runs ?? [];
  const shown = sorted(all.filter((run) => matches(run, words)), by in SORTS ? by : "started", down);
  const picked = chosen.value;
  const sort = (name: SortName): void => adjust({ sort: `${name}:${by === name && down ? "up" : "down"}` });
  const columns: Column[] = COLUMNS.map(({ title, sort: name, ...rest }) => ({
    title,
    ...rest,
    ...(name ? { sorted: by === name ? (down ? "descending" : "ascending") : false, onSort: () => sort(name) } : {}),
  }));
  const toggle = (id: string): void => selectRuns(picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id]);
  const [first, ...others] = picked;
  const running = all.filter((run) => run.status === "running").length;
  return (
    <Frame
      title="Runs"
      note={answer.value ? `${shown.length === all.length ? "" : `${shown.length} of `}${all.length} runs, ${running} running` : null}
      answer={answer}
      empty={all.length === 0 ? "No run yet. Start one with OTEL_EXPORTER_OTLP_ENDPOINT set to this address; `verl-otel doctor` tests the way there." : null}
      actions={
        <>
          <input
            type="search"
            data-search
            placeholder="Search (/): name, status, host, model"
            aria-label="Search runs"
            value={param("q")}
            onInput={(event) => adjust({ q: event.currentTarget.value })}
            style={{ width: "24em" }}
          />
          <button
            type="button"
            disabled={first === undefined || others.length === 0}
            onClick={() => first && go("compare", { runs: listText(others) }, first)}
          >
            Compare {picked.length > 1 ? `${picked.length} runs` : "(choose two)"}
          </button>
          {picked.length > 0 && (
            <button type="button" class="quiet" onClick={() => selectRuns([])}>
              Choose none
            </button>
          )}
        </>
      }
    >
      <Windowed
        label="Runs"
        columns={columns}
        count={shown.length}
        height={Math.max(300, window.innerHeight - 130)}
        rowHeight={30}
        row={(index) => {
          const run = shown[index] as Run;
          return [
            <input
              key="pick"
              type="checkbox"
              checked={picked.includes(run.id)}
              aria-label={`Compare ${run.id}`}
              onChange={() => toggle(run.id)}
            />,
            <a key="name" href={linkTo("overview", run.id, { runs: null })} title={`${run.id}${run.model ? `, ${run.model}` : ""}`}>
              {run.experiment ?? run.id}
            </a>,
            ...cells(run, now.value),
          ];
        }}
        rowClass={(index) => (picked.includes(shown[index]?.id ?? "") ? "chosen" : "")}
        onOpen={(index) => go("overview", { runs: null }, shown[index]?.id ?? null)}
        empty="No run matches the search."
      />
    </Frame>
  );
}
