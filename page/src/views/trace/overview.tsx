// A trace in a strip: all its rows thin, and the part of its time that the waterfall shows.
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import { Canvas } from "../../chart/canvas";
import { pan, type Range } from "../../chart/range";
import type { Mark, Surface } from "../../chart/painter";
import { seconds } from "../../format";
import { keyOf, moved } from "../timeline/keys";
import { useLooks } from "../looks";
import type { Node } from "./layout";
import { kindOf } from "./names";

const HEIGHT = 56;

export function Strip({
  rows,
  view,
  bounds,
  onView,
}: {
  rows: readonly Node[];
  view: Range;
  bounds: Range;
  onView: (view: Range) => void;
}): JSX.Element {
  const looks = useLooks();
  const [width, setWidth] = useState(1);
  const [brush, setBrush] = useState<readonly [number, number] | null>(null);
  const span = bounds[1] - bounds[0];
  const states = useMemo(() => [...new Set(rows.map(({ span: one }) => kindOf(one)))], [rows]);
  const paint = useCallback(
    (surface: Surface) => {
      const height = HEIGHT / Math.max(rows.length, 14);
      const x = (time: number): number => ((time - bounds[0]) / span) * surface.width;
      const marks = rows.map(({ span: one }, row): Mark => ({
        x: x(one.start),
        y: row * height,
        width: x(one.end) - x(one.start),
        height: Math.max(0.7, height * 0.8),
        paint: states.indexOf(kindOf(one)),
        error: one.error,
      }));
      surface.marks(marks, looks.states(states));
      surface.errors(marks, looks.error);
    },
    [rows, states, looks, bounds[0], bounds[1]],
  );
  const [left, right] = [((view[0] - bounds[0]) / span) * width, ((view[1] - bounds[0]) / span) * width];
  const timeAt = (x: number): number => bounds[0] + (Math.min(width, Math.max(0, x)) / width) * span;
  return (
    <div class="minimap">
      <Canvas
        label={`The whole trace, ${seconds(span / 1000)}, ${rows.length} rows.`}
        keys="The whole trace. Drag to choose a part; arrows move it, plus and minus change its width, f shows all."
        height={HEIGHT}
        paint={paint}
        width={(w) => setWidth(w || 1)}
        said=""
        at={null}
        onClick={({ x }) => onView(pan(view, (timeAt(x) - (view[0] + view[1]) / 2) / (view[1] - view[0]), bounds))}
        onDrag={(from, to, done) => {
          const [a, b] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
          setBrush(done ? null : [a, b]);
          if (done) onView([timeAt(a), timeAt(b)]);
        }}
        onKey={(event) => {
          const key = { ArrowLeft: "a", ArrowRight: "d" }[event.key] ?? keyOf(event);
          const next = moved(key, view, (view[0] + view[1]) / 2, bounds);
          if (next) onView(next);
          return next !== null;
        }}
      >
        <div class="minimap-shade" style={{ left: 0, width: `${Math.max(0, left)}px` }} />
        <div class="minimap-shade" style={{ left: `${right}px`, width: `${Math.max(0, width - right)}px` }} />
        {brush ? <div class="brush" style={{ left: `${brush[0]}px`, width: `${brush[1] - brush[0]}px` }} /> : null}
      </Canvas>
    </div>
  );
}
