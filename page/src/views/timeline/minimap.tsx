// The whole run in a strip, and the part of it that is shown: dragged, or moved by arrows.
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import type { Timeline } from "../../api";
import { Canvas } from "../../chart/canvas";
import { pan, type Range } from "../../chart/range";
import type { Surface } from "../../chart/painter";
import { seconds } from "../../format";
import { stackOrder, useLooks } from "../looks";
import { fleetOf } from "./cells";
import { keyOf, moved } from "./keys";

const HEIGHT = 36;

export interface MinimapProps {
  data: Timeline;
  view: Range;
  bounds: Range;
  onView: (view: Range) => void;
}

export function Minimap({ data, view, bounds, onView }: MinimapProps): JSX.Element {
  const looks = useLooks();
  const [width, setWidth] = useState(1);
  const [held, setHeld] = useState<Range | null>(null);
  const columns = useMemo(
    () =>
      fleetOf(
        data,
        data.lanes.map((_, row) => row),
      ),
    [data],
  );
  // At this height a hatch is noise: what is no work stays empty.
  const paints = useMemo(() => looks.states(data.states).map((paint) => (paint.hatch ? { color: "" } : paint)), [looks, data.states]);
  const span = bounds[1] - bounds[0];
  const [left, right] = [((view[0] - bounds[0]) / span) * width, ((view[1] - bounds[0]) / span) * width];

  const paint = useCallback(
    (surface: Surface) => {
      const whole = Math.max(1, ...columns.slice(0, 50).map((column) => column.reduce((a, b) => a + b, 0)));
      // The bounds may have grown since this answer.
      const x = (time: number): number => ((time - bounds[0]) / (bounds[1] - bounds[0])) * surface.width;
      const area = { x: x(data.from), y: 0, width: x(data.to) - x(data.from), height: HEIGHT };
      const order = stackOrder(data.states);
      if (columns.length)
        surface.stack(
          columns.map((column) => order.map((state) => column[state]!)),
          whole,
          order.map((state) => paints[state]!),
          area,
        );
    },
    [columns, paints, data.from, data.to, bounds[0], bounds[1]],
  );
  return (
    <div class="minimap">
      <Canvas
        label={`The whole run, ${seconds(span / 1000)}, as shares of rows in each state.`}
        keys="The whole run. Arrows move the part that is shown, plus and minus change its width, f shows all."
        height={HEIGHT}
        paint={paint}
        width={(w) => setWidth(w || 1)}
        said=""
        at={null}
        onClick={({ x }) => {
          const shift = (x / width) * span + bounds[0] - (view[0] + view[1]) / 2;
          onView(pan(view, shift / (view[1] - view[0]), bounds));
        }}
        onDrag={(from, to, done) => {
          const start = held ?? view;
          const [a, b] = [((start[0] - bounds[0]) / span) * width, ((start[1] - bounds[0]) / span) * width];
          // Outside of the part shown, or with all of it shown, a drag chooses a new part.
          if (from.x < a - 4 || from.x > b + 4 || b - a > width - 4) {
            if (done)
              onView([
                bounds[0] + (Math.max(0, Math.min(from.x, to.x)) / width) * span,
                bounds[0] + (Math.min(width, Math.max(from.x, to.x)) / width) * span,
              ]);
            return;
          }
          onView(pan(start, (((to.x - from.x) / width) * span) / (start[1] - start[0]), bounds));
          setHeld(done ? null : start);
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
        <div class="minimap-window" style={{ left: `${left}px`, width: `${Math.max(3, right - left)}px` }} />
      </Canvas>
    </div>
  );
}
