// Each GPU as a cell in its host's row: a symbol and a word beside the colour.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Frame } from "../../chart/frame";
import { number } from "../../format";
import { linkTo } from "../../state";
import type { TableRows } from "./panels";

interface Gpu {
  host: string;
  name: string;
  state: "ok" | "throttled" | "error" | "silent";
  word: string;
  facts: [string, string][];
}

const SYMBOLS: Record<Gpu["state"], string> = { ok: "✓", throttled: "▼", error: "✕", silent: "?" };

const find = (columns: readonly string[], pattern: RegExp): number => columns.findIndex((name) => pattern.test(name.toLowerCase()));

/** The table that has a row for each GPU: with a host, a GPU and a state. */
export function isGpus({ columns }: TableRows): boolean {
  return find(columns, /^host/) >= 0 && find(columns, /^gpu/) >= 0 && find(columns, /^(state|status)/) >= 0;
}

export function gpusOf({ columns, rows }: TableRows): Gpu[] {
  const [host, gpu, state] = [find(columns, /^host/), find(columns, /^gpu/), find(columns, /^(state|status)/)];
  return rows.map((row) => {
    const word = row[state] == null ? "not told" : String(row[state]);
    return {
      host: String(row[host] ?? "host not told"),
      name: /^\d+$/.test(String(row[gpu])) ? `GPU ${row[gpu]}` : String(row[gpu] ?? "—"),
      word,
      state: stateOf(word),
      facts: columns.flatMap((name, place): [string, string][] =>
        place === host || place === gpu || place === state
          ? []
          : [[name, typeof row[place] === "number" ? number(row[place]) : String(row[place] ?? "—")]],
      ),
    };
  });
}

function stateOf(word: string): Gpu["state"] {
  if (/^ok|^healthy/i.test(word)) return "ok";
  if (/not told|silent|unknown|stale/i.test(word)) return "silent";
  return /throttl|slow|hot/i.test(word) ? "throttled" : "error";
}

/** Above this many GPUs only the sick ones have words; the others are cells. */
const MANY = 64;
const NAMED = 32;
const WORDS: Record<Gpu["state"], string> = { error: "with errors", throttled: "held down", silent: "not told of", ok: "ok" };

export function Gpus({ table, run }: { table: TableRows; run: string }): JSX.Element {
  const gpus = useMemo(
    () =>
      gpusOf(table).sort(
        (a, b) => a.host.localeCompare(b.host, "en", { numeric: true }) || a.name.localeCompare(b.name, "en", { numeric: true }),
      ),
    [table],
  );
  const hosts = useMemo(() => {
    const found = new Map<string, Gpu[]>();
    for (const one of gpus) found.set(one.host, [...(found.get(one.host) ?? []), one]);
    return found;
  }, [gpus]);
  const counts = (Object.keys(WORDS) as Gpu["state"][])
    .map((state) => ({ state, count: gpus.filter((one) => one.state === state).length }))
    .filter(({ count }) => count > 0);
  const sick = gpus.filter(({ state }) => state === "error" || state === "throttled");
  const many = gpus.length > MANY;
  return (
    <Frame
      title="Is a GPU or host sick?"
      good="Good: every cell says ok. One GPU that is held down or has errors slows its whole step."
      note={`${gpus.length} GPUs on ${hosts.size} hosts: ${counts.map(({ state, count }) => `${SYMBOLS[state]} ${count} ${WORDS[state]}`).join(", ")}`}
      table={() => ({ caption: "GPUs", columns: table.columns, rows: table.rows })}
    >
      {many && sick.length ? (
        <div class="gpus-sick">
          {sick.slice(0, NAMED).map((one) => (
            <Cell key={one.host + one.name} gpu={one} withHost />
          ))}
          {sick.length > NAMED ? (
            <span class="muted">
              {NAMED} of {sick.length}; the table has all
            </span>
          ) : null}
        </div>
      ) : null}
      <div class={many ? "gpus many" : "gpus"}>
        {[...hosts].map(([host, own]) => (
          <div key={host} class="gpu-host" role="group" aria-label={host}>
            <a class="gpu-name" href={linkTo("timeline", run, { lanes: `host:${host}` })} title={`${host}: its rows in the timeline`}>
              {host || "host not told"}
            </a>
            {own.map((one) => (many ? <Dot key={one.name} gpu={one} /> : <Cell key={one.name} gpu={one} />))}
          </div>
        ))}
      </div>
    </Frame>
  );
}

function Dot({ gpu }: { gpu: Gpu }): JSX.Element {
  const text = `${gpu.host} ${gpu.name}: ${gpu.word}; ${gpu.facts.map(([name, value]) => `${name} ${value}`).join(", ")}`;
  return (
    <i class={`gpu-dot ${gpu.state}`} role="img" aria-label={text} title={text}>
      {SYMBOLS[gpu.state]}
    </i>
  );
}

function Cell({ gpu, withHost }: { gpu: Gpu; withHost?: boolean }): JSX.Element {
  return (
    <details class={`gpu ${gpu.state}`}>
      <summary>
        <span aria-hidden="true">{SYMBOLS[gpu.state]}</span> {withHost ? `${gpu.host} ` : ""}
        {gpu.name} <b>{gpu.word}</b>
      </summary>
      <dl>
        {gpu.facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
