// Small multiples of lines over time, each a question, and the tables that name the worst.
import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useAnswer, type Panel, type Panels, type Steps } from "../../api";
import { Frame } from "../../chart/frame";
import { LineChart, type Band, type Line } from "../../chart/line";
import { Windowed } from "../../chart/table";
import { runDashed, runVar } from "../../colors";
import { date, number, unitName } from "../../format";
import { selectTimes } from "../../link";
import { times } from "../../state";

/** More lines than this are a band, with those named that end highest. */
const LINES = 12;
const NAMED = 4;

export type TableRows = Panels["rows"][number];

export interface PanelsViewProps {
  run: string;
  part: "engine" | "hardware" | "pipeline";
  /** What to say when the run told nothing of it. */
  empty: string;
  /** Takes tables out for a picture of its own; gives the others back. */
  head?: (tables: readonly TableRows[]) => { picture: ComponentChildren; rest: readonly TableRows[] };
}

export function PanelsView({ run, part, empty, head }: PanelsViewProps): JSX.Element {
  const range = times.value;
  const base = `/api/runs/${encodeURIComponent(run)}`;
  const answer = useAnswer<Panels>(`${base}/${part}`, { ...(range ? { from: range[0], to: range[1] } : {}), width: 600 });
  const steps = useAnswer<Steps>(`${base}/steps`, { bins: 100_000 });
  const { panels = [], rows = [] } = answer.value ?? {};
  const { picture, rest } = head ? head(rows) : { picture: null, rest: rows };
  const told = panels.filter(isTold);
  const silent = panels.filter((panel) => !isTold(panel));
  if (!answer.value || (!panels.length && !rows.length)) {
    return <Frame title={part} answer={answer} empty={answer.value ? empty : null} height={200} />;
  }
  return (
    <div class="view panels-view">
      {range ? (
        <p class="tools">
          <span>
            {date(range[0])} to {date(range[1])}
          </span>
          <button type="button" onClick={() => selectTimes(null, steps.value)}>
            All of the run
          </button>
        </p>
      ) : null}
      {picture}
      <div class="grid">
        {told.map((panel) => (
          <One key={panel.id} panel={panel} answer={answer} onRange={(next) => selectTimes(next, steps.value)} />
        ))}
      </div>
      {silent.length ? (
        <Frame title="What was not told, and why" note={`${silent.length} of ${panels.length} pictures`}>
          <dl class="silent">
            {silent.map(({ id, title, why_empty: why }) => (
              <div key={id}>
                <dt>{title}</dt>
                <dd>{why ?? "not told in this time"}</dd>
              </div>
            ))}
          </dl>
        </Frame>
      ) : null}
      {rest.map((table) => (
        <Rows key={table.title} {...table} />
      ))}
    </div>
  );
}

const isTold = ({ lines }: Panel): boolean => lines.some(({ ys }) => ys.some((value) => value !== null));

interface OneProps {
  panel: Panel;
  answer: ReturnType<typeof useAnswer<Panels>>;
  onRange: (range: readonly [number, number] | null) => void;
}

function One({ panel, answer, onRange }: OneProps): JSX.Element {
  const { title, good, unit, x, threshold } = panel;
  const { lines, bands } = useMemo(() => drawn(panel), [panel]);
  return (
    <Frame
      title={title}
      good={good}
      note={unitName(unit)}
      answer={answer}
      height={150}
      table={() => ({
        caption: title,
        columns: ["time", ...panel.lines.map(({ name }) => name)],
        rows: x.map((time, n) => [new Date(time).toISOString(), ...panel.lines.map(({ ys }) => ys[n] ?? null)]),
      })}
    >
      <LineChart
        label={`${title} ${panel.lines.length} lines.`}
        x="time"
        unit={unit}
        lines={lines}
        bands={bands}
        height={150}
        onRange={(next) => next && onRange(next)}
        {...(threshold === null ? {} : { thresholds: [{ value: threshold, label: "alert" }] })}
      />
    </Frame>
  );
}

function drawn({ x, lines }: Panel): { lines: Line[]; bands: Band[] } {
  const line = ({ name, ys }: Panel["lines"][number], index: number): Line => ({
    label: name,
    xs: x,
    ys,
    color: runVar(index),
    ...(runDashed(index) ? { style: "dash" as const } : {}),
  });
  const band = (label: string, low: Line["ys"], high: Line["ys"]): Band => ({
    label,
    low: { xs: x, ys: low },
    high: { xs: x, ys: high },
    color: "var(--phase-unknown)",
  });
  const bands = bandsOf(lines);
  if (bands.size) {
    const edges = new Set([...bands.values()].flat());
    return {
      lines: lines.filter((one) => !edges.has(one)).map(line),
      bands: [...bands].map(([name, [low, high]]) => band(`${name} least to most`.trim(), low.ys, high.ys)),
    };
  }
  if (lines.length <= LINES) return { lines: lines.map(line), bands: [] };
  const last = (ys: readonly (number | null)[]): number => ys.findLast((value) => value !== null) ?? -Infinity;
  const highest = [...lines].sort((a, b) => last(b.ys) - last(a.ys)).slice(0, NAMED);
  const all = band(
    `all ${lines.length}, of which the ${NAMED} highest are drawn`,
    x.map((_, n) => extreme(lines, n, Math.min)),
    x.map((_, n) => extreme(lines, n, Math.max)),
  );
  return { lines: highest.map(line), bands: [all] };
}

/** Of many series the server tells the least and the most, and names the worst: "waiting least" with "waiting most". */
function bandsOf(lines: Panel["lines"]): Map<string, [Panel["lines"][number], Panel["lines"][number]]> {
  const bands = new Map<string, [Panel["lines"][number], Panel["lines"][number]]>();
  for (const low of lines) {
    const name = /^(.*?) ?least$/.exec(low.name)?.[1];
    const high = name === undefined ? undefined : lines.find((one) => one.name === `${name} most`.trim());
    if (name !== undefined && high) bands.set(name, [low, high]);
  }
  return bands;
}

function extreme(lines: Panel["lines"], index: number, of: (a: number, b: number) => number): number | null {
  return lines.reduce<number | null>((found, { ys }) => {
    const value = ys[index] ?? null;
    return value === null ? found : found === null ? value : of(found, value);
  }, null);
}

function Rows({ title, columns, rows }: TableRows): JSX.Element {
  const numeric = columns.map((_, place) => rows.some((row) => typeof row[place] === "number"));
  return (
    <Frame title={title} empty={rows.length ? null : "Nothing to name."}>
      <Windowed
        label={title}
        columns={columns.map((name, place) => ({ title: name, ...(numeric[place] ? { number: true } : {}) }))}
        count={rows.length}
        height={300}
        row={(index) =>
          (rows[index] ?? []).map((value) =>
            typeof value === "number" ? number(value) : <span title={value ?? "not told"}>{value ?? "—"}</span>,
          )
        }
      />
    </Frame>
  );
}
