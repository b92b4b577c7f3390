// What the fleet did: for each moment, the share of rows in each state.
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import type { Timeline } from "../../api";
import { TimeAxis } from "../../chart/axis";
import { Canvas } from "../../chart/canvas";
import type { Range } from "../../chart/range";
import type { Surface } from "../../chart/painter";
import { clock, share } from "../../format";
import { stackOrder, useLooks } from "../looks";
import { keyOf, moved } from "./keys";

const HEIGHT = 140;

export interface FleetProps {
  data: Timeline;
  columns: number[][];
  rows: number;
  view: Range;
  bounds: Range;
  origin: number;
  onView: (view: Range) => void;
}

export function Fleet({ data, columns, rows, view, bounds, origin, onView }: FleetProps): JSX.Element {
  const looks = useLooks();
  const [width, setWidth] = useState(1);
  const [time, setTime] = useState<number | null>(null);
  const [brush, setBrush] = useState<readonly [number, number] | null>(null);
  const paints = useMemo(() => looks.states(data.states), [looks, data.states]);
  const whole = useMemo(() => Math.max(...columns.map((column) => column.reduce((a, b) => a + b, 0)), 1e-9), [columns]);
  const paint = useCallback(
    (surface: Surface) => {
      const x = (at: number): number => ((at - view[0]) / (view[1] - view[0])) * surface.width;
      const order = stackOrder(data.states);
      surface.stack(
        columns.map((column) => order.map((state) => column[state]!)),
        whole,
        order.map((state) => paints[state]!),
        { x: x(data.from), y: 0, width: x(data.to) - x(data.from), height: HEIGHT },
      );
      for (const part of [0.25, 0.5, 0.75]) surface.line(0, HEIGHT * part, surface.width, HEIGHT * part, looks.background, 0.5);
    },
    [columns, paints, data, view[0], view[1], looks, whole],
  );
  const column = time === null ? -1 : Math.floor(((time - data.from) / (data.to - data.from)) * columns.length);
  const text = (columns[column] ?? [])
    .map((amount, state) => ({ amount, name: data.states[state] }))
    .filter(({ amount, name }) => amount > 0 && name)
    .sort((a, b) => b.amount - a.amount)
    .map(({ amount, name }) => `${name} ${share(amount / whole)}`);
  const timeAt = (x: number): number => view[0] + (Math.min(width, Math.max(0, x)) / width) * (view[1] - view[0]);
  return (
    <div class="lanes">
      <div class="lane-labels fleet-scale" aria-hidden="true">
        <span>100 %</span>
        <span>50 %</span>
        <span>0 %</span>
      </div>
      <div>
        <TimeAxis range={view} origin={origin} width={width} />
        <Canvas
          label={`Shares of ${rows} rows in each state over time.`}
          keys="Fleet. Left and right move the cursor, plus and minus zoom, a and d pan, f shows all."
          height={HEIGHT}
          paint={paint}
          width={(w) => setWidth(w || 1)}
          said={time === null ? "" : `${clock(time)}: ${text.join(", ") || "nothing known"}`}
          tooltip={
            time === null ? null : [<div key="time">{clock(time)}</div>, ...text.slice(0, 8).map((one) => <div key={one}>{one}</div>)]
          }
          at={time === null || brush ? null : { x: ((time - view[0]) / (view[1] - view[0])) * width, y: 8 }}
          onPoint={(point) => setTime(point && timeAt(point.x))}
          onClick={({ x }) => onView(moved("+", view, timeAt(x), bounds)!)}
          onDrag={(from, to, done) => {
            const [a, b] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
            setBrush(done ? null : [a, b]);
            if (done) onView([timeAt(a), timeAt(b)]);
          }}
          onKey={(event) => {
            const key = keyOf(event);
            const here = time ?? (view[0] + view[1]) / 2;
            const next = moved(key, view, here, bounds);
            if (next) onView(next);
            else if (key === "ArrowLeft" || key === "ArrowRight") {
              setTime(Math.min(view[1], Math.max(view[0], here + ((view[1] - view[0]) / 60) * (key === "ArrowLeft" ? -1 : 1))));
            } else return false;
            return true;
          }}
        >
          {time !== null ? <div class="cursor-x" style={{ left: `${((time - view[0]) / (view[1] - view[0])) * width}px` }} /> : null}
          {brush ? <div class="brush" style={{ left: `${brush[0]}px`, width: `${brush[1] - brush[0]}px` }} /> : null}
        </Canvas>
      </div>
    </div>
  );
}
