// A whole in a strip, and the part of it that is shown: dragged, chosen anew, or moved by arrows.
import type { JSX } from "preact";
import { useCallback, useState } from "preact/hooks";
import { Canvas } from "../chart/canvas";
import { pan, type Range } from "../chart/range";
import type { Surface } from "../chart/painter";
import { keyOf, moved } from "./timeline/keys";

/** Pixels beside the part shown that still take hold of it. */
const GRIP = 4;

export interface StripProps {
  label: string;
  keys: string;
  height: number;
  /** Draws the whole; `x` is where a time is. Another function has it drawn again. */
  paint: (surface: Surface, x: (time: number) => number) => void;
  view: Range;
  bounds: Range;
  onView: (view: Range) => void;
}

export function Strip({ label, keys, height, paint, view, bounds, onView }: StripProps): JSX.Element {
  const [width, setWidth] = useState(1);
  const [held, setHeld] = useState<Range | null>(null);
  const [brush, setBrush] = useState<Range | null>(null);
  const span = bounds[1] - bounds[0];
  const xOf = (time: number): number => ((time - bounds[0]) / span) * width;
  const timeAt = (x: number): number => bounds[0] + (Math.min(width, Math.max(0, x)) / width) * span;
  const [left, right] = [xOf(view[0]), xOf(view[1])];
  const draw = useCallback(
    (surface: Surface) => paint(surface, (time) => ((time - bounds[0]) / span) * surface.width),
    [paint, bounds[0], bounds[1]],
  );
  return (
    <div class="minimap">
      <Canvas
        label={label}
        keys={keys}
        height={height}
        paint={draw}
        width={(w) => setWidth(w || 1)}
        said=""
        at={null}
        onClick={({ x }) => onView(pan(view, (timeAt(x) - (view[0] + view[1]) / 2) / (view[1] - view[0]), bounds))}
        onDrag={(from, to, done) => {
          const start = held ?? view;
          const [a, b] = [xOf(start[0]), xOf(start[1])];
          // Outside of the part shown, or with all of it shown, a drag chooses a new part.
          if (from.x < a - GRIP || from.x > b + GRIP || b - a > width - GRIP) {
            const [first, last] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
            setBrush(done ? null : [first, last]);
            if (done) onView([timeAt(first), timeAt(last)]);
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
        {brush ? <div class="brush" style={{ left: `${brush[0]}px`, width: `${brush[1] - brush[0]}px` }} /> : null}
      </Canvas>
    </div>
  );
}
