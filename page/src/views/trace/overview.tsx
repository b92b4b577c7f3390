// The whole trace in a strip: all its rows, thin.
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Range } from "../../chart/range";
import type { Mark, Surface } from "../../chart/painter";
import { seconds } from "../../format";
import { useLooks } from "../looks";
import { Strip } from "../strip";
import type { Node } from "./layout";
import { kindOf } from "./names";

const HEIGHT = 56;

export interface OverviewProps {
  rows: readonly Node[];
  view: Range;
  bounds: Range;
  onView: (view: Range) => void;
}

export function Overview({ rows, view, bounds, onView }: OverviewProps): JSX.Element {
  const looks = useLooks();
  const states = useMemo(() => [...new Set(rows.map(({ span: one }) => kindOf(one)))], [rows]);
  const paint = useCallback(
    (surface: Surface, x: (time: number) => number) => {
      const height = HEIGHT / Math.max(rows.length, 14);
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
    [rows, states, looks],
  );
  return (
    <Strip
      label={`The whole trace, ${seconds((bounds[1] - bounds[0]) / 1000)}, ${rows.length} rows.`}
      keys="The whole trace. Drag to choose a part, or the part shown to move it, as arrows do, plus and minus change its width, f shows all."
      height={HEIGHT}
      paint={paint}
      view={view}
      bounds={bounds}
      onView={onView}
    />
  );
}
