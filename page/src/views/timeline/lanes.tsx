// Rows of a timeline as one picture with its labels: cells above the pixel, spans below it.
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import type { Timeline } from "../../api";
import { TimeAxis } from "../../chart/axis";
import { Canvas, type Point } from "../../chart/canvas";
import { Hits } from "../../chart/hits";
import type { Mark as Rect, Surface } from "../../chart/painter";
import type { Range } from "../../chart/range";
import { seconds } from "../../format";
import { useLooks } from "../looks";
import { pick, rowHeight } from "./cells";
import { Cursor, describe, type Mark } from "./cursor";
import { keyOf, moved } from "./keys";
import { edges, gaps, heightOf, lineAt, place, plainLines, shade, type Placed } from "./tracks";

export interface LanesProps {
  id: string;
  title: string;
  data: Timeline;
  cells: Uint8Array | null;
  /** Indices into the lanes, in the order shown. */
  rows: readonly number[];
  view: Range;
  bounds: Range;
  origin: number;
  byWeights: boolean;
  stepAt: (time: number) => number | null;
  onView: (view: Range) => void;
  onStep: (direction: 1 | -1) => void;
  onOpen: (trace: string, span: string) => void;
  onLane: (lane: string) => void;
  onWidth?: (width: number) => void;
}

export function Lanes(props: LanesProps): JSX.Element {
  const { data, cells, rows, view, bounds, origin, byWeights } = props;
  const looks = useLooks();
  const [width, setWidth] = useState(1);
  const [mark, setMark] = useState<Mark | null>(null);
  const [brush, setBrush] = useState<readonly [number, number] | null>(null);
  const [panFrom, setPanFrom] = useState<Range | null>(null);

  const height = rowHeight(rows.length);
  const { lines, placed, idle } = useMemo(() => {
    if (!data.spans) return { lines: plainLines(rows.length, height), placed: [] as Placed[], idle: [] };
    const shown = new Map(rows.map((row, index) => [row, index]));
    const spans = data.spans.flatMap((span) => (shown.has(span.row) ? [{ ...span, row: shown.get(span.row)! }] : []));
    const found = place(spans, rows.length, height);
    return {
      ...found,
      idle: gaps(
        spans,
        rows.map((row) => data.lanes[row]!.idle),
        [data.from, data.to],
      ),
    };
  }, [data, rows, height]);
  const hits = useMemo(() => new Hits(placed.map((span) => ({ start: span.start, end: span.end, row: span.line, span }))), [placed]);
  const picked = useMemo(() => (cells ? pick(cells, data.width, rows) : null), [cells, data.width, rows]);
  const versions = useMemo(() => placed.flatMap(({ weights }) => (weights === null ? [] : [weights])), [placed]);
  const paints = useMemo(() => looks.states(data.states), [looks, data.states]);

  const total = heightOf(lines);
  const scale = (time: number): number => ((time - view[0]) / (view[1] - view[0])) * width;
  const timeAt = (x: number): number => view[0] + (x / width) * (view[1] - view[0]);

  const paint = useCallback(
    (surface: Surface) => {
      const { width: w, height: h } = surface;
      const x = (time: number): number => ((time - view[0]) / (view[1] - view[0])) * w;
      if (picked) {
        const area = { x: x(data.from), y: 0, width: x(data.to) - x(data.from), height: h };
        surface.matrix(picked, data.width, rows.length, paints, area);
        surface.separate(rows.length, { ...area, x: 0, width: w }, looks.background);
      } else {
        const shades = looks.weights();
        const [oldest, newest] = [Math.min(...versions), Math.max(...versions)];
        const rects = placed.flatMap((span): Rect[] => {
          const { top, height: full } = lines[span.line]!;
          if (span.end < view[0] || span.start > view[1]) return [];
          const version = byWeights && span.weights !== null ? Math.round(shade(span.weights, oldest, newest) * (shades.length - 1)) : -1;
          const state = Math.max(0, data.states.indexOf(span.state));
          return [
            {
              x: x(span.start),
              y: top,
              width: x(span.end) - x(span.start),
              height: full - (full >= 4 ? 1 : 0),
              paint: version < 0 ? state : paints.length + version,
              error: span.error,
            },
          ];
        });
        const { top, bottom } = edges(lines);
        const rests = idle.map(({ row, start, end }): Rect => ({
          x: x(start),
          y: top[row]!,
          width: x(end) - x(start),
          height: bottom[row]! - top[row]! - (height >= 4 ? 1 : 0),
          paint: 0,
        }));
        surface.marks(rests, [looks.idle(height)]);
        surface.marks(rects, [...paints, ...shades]);
        surface.errors(rects, looks.error);
      }
      for (const top of hostChanges(data, rows, lines, h)) surface.line(0, top, w, top, looks.background, 1);
    },
    [data, picked, placed, idle, lines, rows, view[0], view[1], paints, looks, byWeights, versions],
  );

  const spanAt = (line: number, time: number): Placed | null => hits.at(line, time, ((view[1] - view[0]) / width) * 3)?.span ?? null;
  const at = (line: number, time: number): Mark => {
    const row = rows[lines[line]?.row ?? 0]!;
    return { line, time, text: describe(data, cells, row, time, spanAt(line, time), origin, props.stepAt(time)) };
  };
  const open = (one: Mark): void => {
    const span = spanAt(one.line, one.time);
    if (span) props.onOpen(span.trace, span.span);
    else props.onView(moved("+", view, one.time, bounds)!);
  };
  const onKey = (event: KeyboardEvent): boolean => {
    const key = keyOf(event);
    const time = mark?.time ?? (view[0] + view[1]) / 2;
    const line = mark?.line ?? 0;
    if (key === "[" || key === "]") return (props.onStep(key === "[" ? -1 : 1), true);
    if (key === "Escape") return mark !== null && (setMark(null), true);
    if (key === "Enter") return mark !== null && (open(mark), true);
    const next = moved(key, view, time, bounds);
    if (next) return (props.onView(next), true);
    if (key === "ArrowUp" || key === "ArrowDown") {
      setMark(at(Math.min(lines.length - 1, Math.max(0, line + (key === "ArrowUp" ? -1 : 1))), time));
    } else if (key === "ArrowLeft" || key === "ArrowRight") {
      setMark(at(line, Math.min(view[1], Math.max(view[0], time + ((view[1] - view[0]) / 60) * (key === "ArrowLeft" ? -1 : 1)))));
    } else if (key === "," || key === ".") {
      const found = hits.step(line, time, key === "," ? -1 : 1);
      if (found) setMark(at(line, found.start));
    } else return false;
    return true;
  };
  const onDrag = (from: Point, to: Point, done: boolean, shift: boolean): void => {
    if (shift || panFrom) {
      const start = panFrom ?? view;
      const share = (from.x - to.x) / width;
      props.onView(moved("pan", start, share, bounds)!);
      setPanFrom(done ? null : start);
      return;
    }
    setBrush(done ? null : [Math.min(from.x, to.x), Math.max(from.x, to.x)]);
    if (done) props.onView([timeAt(Math.max(0, Math.min(from.x, to.x))), timeAt(Math.min(width, Math.max(from.x, to.x)))]);
  };
  return (
    <div class="lanes">
      <Labels {...props} lines={lines} />
      <div>
        <TimeAxis range={view} origin={origin} width={width} />
        <Canvas
          id={props.id}
          label={`${props.title}: ${rows.length} rows over ${seconds((view[1] - view[0]) / 1000)}.`}
          keys="Timeline. Arrows move the cursor, plus and minus zoom, a and d pan, f shows all, comma and full stop go to the next span, square brackets to the next step, Enter opens."
          height={Math.max(1, total)}
          paint={paint}
          width={(w) => {
            setWidth(w || 1);
            props.onWidth?.(w);
          }}
          said={mark?.text.join(", ") ?? ""}
          tooltip={mark ? mark.text.map((line) => <div key={line}>{line}</div>) : null}
          at={mark && !brush ? { x: scale(mark.time), y: lines[mark.line]?.top ?? 0 } : null}
          onPoint={(point) => setMark(point && lines.length ? at(lineAt(lines, point.y), timeAt(point.x)) : null)}
          onClick={(point) => lines.length && open(at(lineAt(lines, point.y), timeAt(point.x)))}
          onDrag={onDrag}
          onWheel={(event, point) => {
            const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
            if (!sideways && !event.ctrlKey && !event.metaKey) return false;
            const amount = (event.deltaX || event.deltaY) / 500;
            props.onView(
              sideways ? moved("pan", view, amount, bounds)! : moved("zoom", view, timeAt(point.x), bounds, Math.exp(amount * 2))!,
            );
            return true;
          }}
          onKey={onKey}
        >
          <Cursor x={mark ? scale(mark.time) : null} line={mark ? lines[mark.line] : undefined} brush={brush} />
        </Canvas>
      </div>
    </div>
  );
}

/** Where the next row is of another host: a line there makes the hosts of a carpet countable, unless it were all lines. */
function hostChanges(data: Timeline, rows: readonly number[], lines: readonly { row: number; top: number }[], height: number): number[] {
  if (rows.length <= 40) return [];
  const changes = lines
    .filter(({ row }) => row > 0 && data.lanes[rows[row]!]?.host !== data.lanes[rows[row - 1]!]?.host)
    .map(({ top }) => top);
  return changes.length * 12 < height ? changes : [];
}

function Labels({
  data,
  rows,
  lines,
  onLane,
}: LanesProps & { lines: readonly { row: number; top: number; height: number }[] }): JSX.Element {
  const tops = new Map<number, number>();
  for (const { row, top } of lines) if (!tops.has(row)) tops.set(row, top);
  const every = Math.max(1, Math.ceil(14 / rowHeight(rows.length)));
  return (
    <div class="lane-labels">
      {rows.map((row, index) => {
        const lane = data.lanes[row]!;
        if (index % every) return null;
        const title = `${lane.host ?? "host not told"}; idle ${lane.idle === null ? "—" : `${Math.round(lane.idle * 100)} %`}; gap ${seconds(lane.gap_s)}; ${lane.errors} errors. Click to show it alone.`;
        return (
          <button
            key={lane.lane}
            type="button"
            title={title}
            style={{ top: `${tops.get(index) ?? 0}px` }}
            onClick={() => onLane(lane.lane)}
          >
            {lane.lane}
            {lane.errors ? <span class="error-text"> ✕{lane.errors}</span> : null}
          </button>
        );
      })}
    </div>
  );
}
