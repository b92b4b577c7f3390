// Each trajectory of a step as a row on the wall clock.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Batch, BatchRow } from "../../api";
import { TimeAxis } from "../../chart/axis";
import { Canvas } from "../../chart/canvas";
import { zoom, type Range } from "../../chart/range";
import type { Surface } from "../../chart/painter";
import { clock, count, number, seconds } from "../../format";
import { useLooks } from "../looks";
import { keyOf, moved } from "../timeline/keys";
import { byKind, extent, fits, raster, rectangles, rowHeight, STATES, type StateOf } from "./layout";

export interface AnatomyProps {
  batch: Batch;
  byStaleness: boolean;
  onOpen: (row: BatchRow) => void;
}

export function Anatomy({ batch, byStaleness, onOpen }: AnatomyProps): JSX.Element {
  const { rows, consumed } = batch;
  const looks = useLooks();
  const [width, setWidth] = useState(1);
  const [cursor, setCursor] = useState<{ row: number; time: number } | null>(null);
  const [chosen, setChosen] = useState<Range | null>(null);
  const [brush, setBrush] = useState<readonly [number, number] | null>(null);
  const bounds = useMemo(() => extent(rows, consumed), [rows, consumed]);
  const view = chosen ?? bounds;
  const height = rowHeight(rows.length);
  const exact = useMemo(() => fits(rows), [rows]);
  const shades = useMemo(() => looks.weights(), [looks]);
  const stale = useMemo(() => rows.reduce((most, row) => Math.max(most, row.staleness ?? 0), 0), [rows]);
  const state: StateOf = useCallback(
    (part, row) =>
      byStaleness && part.kind === "model" && !part.error && row.staleness !== null
        ? STATES + Math.round((1 - row.staleness / Math.max(1, stale)) * (shades.length - 1))
        : byKind(part, row),
    [byStaleness, stale, shades],
  );
  const paint = useCallback(
    (surface: Surface) => {
      const scale = (time: number): number => ((time - view[0]) / (view[1] - view[0])) * surface.width;
      const paints = [...looks.kinds(), ...shades];
      if (exact) {
        const marks = rectangles(rows, scale, height, state);
        surface.marks(marks, paints);
        surface.errors(marks, looks.error);
      } else {
        surface.matrix(raster(rows, view, Math.ceil(surface.width), state), Math.ceil(surface.width), rows.length, paints, {
          x: 0,
          y: 0,
          width: surface.width,
          height: surface.height,
        });
      }
      if (consumed !== null) surface.line(scale(consumed), 0, scale(consumed), surface.height, looks.text, 2, [6, 3]);
    },
    [rows, consumed, view[0], view[1], height, exact, looks, state, shades],
  );
  const scale = (time: number): number => ((time - view[0]) / (view[1] - view[0])) * width;
  const timeAt = (x: number): number => view[0] + (Math.min(width, Math.max(0, x)) / width) * (view[1] - view[0]);
  const rowAt = (y: number): number => Math.min(rows.length - 1, Math.max(0, Math.floor(y / height)));
  const row = cursor ? rows[cursor.row] : undefined;
  const text = cursor && row ? describe(row, cursor.time, bounds[0]) : [];
  const labelled = height >= 16;
  const box = useRef<HTMLDivElement>(null);
  // Only the keys move the picture under the cursor: a pointer is where it is.
  const byKeys = useRef(false);
  useEffect(() => {
    const element = box.current;
    if (!element || !cursor || !byKeys.current) return;
    byKeys.current = false;
    const y = cursor.row * height;
    if (y < element.scrollTop || y > element.scrollTop + element.clientHeight - 20) element.scrollTop = y - element.clientHeight / 2;
  }, [cursor, height]);
  const onKey = (event: KeyboardEvent): boolean => {
    const key = keyOf(event);
    const here = cursor ?? { row: 0, time: (view[0] + view[1]) / 2 };
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[key];
    const next = moved(key, view, here.time, bounds);
    byKeys.current = true;
    if (next) setChosen(next[0] === bounds[0] && next[1] === bounds[1] ? null : next);
    else if (by) setCursor({ ...here, row: Math.min(rows.length - 1, Math.max(0, cursor ? here.row + by : 0)) });
    else if (key === "ArrowLeft" || key === "ArrowRight")
      setCursor({
        ...here,
        time: Math.min(view[1], Math.max(view[0], here.time + ((view[1] - view[0]) / 60) * (key === "ArrowLeft" ? -1 : 1))),
      });
    else if (key === "Enter" && row) onOpen(row);
    else if (key === "Escape" && (cursor || chosen)) {
      setCursor(null);
      setChosen(null);
    } else return false;
    return true;
  };
  return (
    <div class={labelled ? "lanes" : "lanes bare"}>
      {labelled ? (
        <div class="lane-labels">
          {rows.map((one, index) => (
            <button
              key={one.trace + one.span}
              type="button"
              style={{ top: `${index * height}px` }}
              title={`${one.uid ?? "uid not told"}, session ${one.session ?? "—"}. Opens its trace.`}
              onClick={() => onOpen(one)}
            >
              {one.outcome === "failed" ? <span class="error-text">✕ </span> : null}
              {one.uid === null ? one.trace.slice(0, 8) : one.uid.slice(0, 8)}/{one.session ?? "—"}{" "}
              <span class="muted">r {number(one.reward, 2)}</span>
            </button>
          ))}
        </div>
      ) : null}
      <div>
        <TimeAxis range={view} origin={bounds[0]} width={width} />
        <div ref={box} class="scroll-box">
          <Canvas
            label={`${rows.length} trajectories of step ${batch.step} over ${seconds((bounds[1] - bounds[0]) / 1000)}.`}
            keys="Trajectories. Up and down go from one to the next, left and right move in time, plus and minus zoom, f shows all, Enter opens the trace."
            height={Math.max(1, rows.length * height)}
            paint={paint}
            width={(w) => setWidth(w || 1)}
            said={text.join(", ")}
            tooltip={text.map((line) => (
              <div key={line}>{line}</div>
            ))}
            at={cursor && !brush ? { x: scale(cursor.time), y: cursor.row * height } : null}
            onPoint={(point) => setCursor(point && rows.length ? { row: rowAt(point.y), time: timeAt(point.x) } : null)}
            onClick={(point) => rows[rowAt(point.y)] && onOpen(rows[rowAt(point.y)]!)}
            onDrag={(from, to, done) => {
              const [a, b] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
              setBrush(done ? null : [a, b]);
              if (done && b - a > 3) setChosen([timeAt(a), timeAt(b)]);
            }}
            onWheel={(event, point) => {
              if (!event.ctrlKey && !event.metaKey) return false;
              setChosen(zoom(view, Math.exp(event.deltaY / 250), timeAt(point.x), bounds));
              return true;
            }}
            onKey={onKey}
          >
            {cursor ? <div class="cursor-x" style={{ left: `${scale(cursor.time)}px` }} /> : null}
            {cursor ? <div class="cursor-y" style={{ top: `${cursor.row * height}px`, height: `${Math.max(2, height)}px` }} /> : null}
            {brush ? <div class="brush" style={{ left: `${brush[0]}px`, width: `${brush[1] - brush[0]}px` }} /> : null}
            {consumed !== null && scale(consumed) > 0 && scale(consumed) <= width ? (
              <span class="line-label" style={{ right: `${width - scale(consumed) + 4}px` }}>
                trainer took the batch
              </span>
            ) : null}
          </Canvas>
        </div>
        {chosen ? (
          <button type="button" class="small" onClick={() => setChosen(null)}>
            fit (f)
          </button>
        ) : null}
      </div>
    </div>
  );
}

function describe(row: BatchRow, time: number, origin: number): string[] {
  const part = row.parts.find(({ start, end }) => time >= start && time <= end);
  return [
    `${row.uid ?? row.trace.slice(0, 16)}, session ${row.session ?? "—"}${row.outcome === null ? "" : `, ${row.outcome}`}`,
    part
      ? `${part.error ? "✕ failed " : ""}${part.kind} for ${seconds((part.end - part.start) / 1000)}`
      : time >= row.start && time <= row.end
        ? "the agent loop's own code"
        : "not running",
    `${seconds((row.end - row.start) / 1000)} in all, ended at ${seconds((row.end - origin) / 1000)}`,
    `reward ${number(row.reward)}, ${count(row.turns)} turns, ${count(row.tokens)} tokens, ${row.staleness === null ? "staleness —" : `${row.staleness} versions late`}`,
    clock(time),
  ];
}
