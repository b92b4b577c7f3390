// The whole run in a strip: what share of the rows was in each state.
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Timeline } from "../../api";
import type { Range } from "../../chart/range";
import type { Surface } from "../../chart/painter";
import { seconds } from "../../format";
import { stackOrder, useLooks } from "../looks";
import { Strip } from "../strip";
import { fleetOf } from "./cells";

const HEIGHT = 36;

export interface MinimapProps {
  data: Timeline;
  view: Range;
  bounds: Range;
  onView: (view: Range) => void;
}

export function Minimap({ data, view, bounds, onView }: MinimapProps): JSX.Element {
  const looks = useLooks();
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
  const paint = useCallback(
    (surface: Surface, x: (time: number) => number) => {
      if (!columns.length) return;
      const whole = Math.max(1, ...columns.slice(0, 50).map((column) => column.reduce((a, b) => a + b, 0)));
      const order = stackOrder(data.states);
      surface.stack(
        columns.map((column) => order.map((state) => column[state]!)),
        whole,
        order.map((state) => paints[state]!),
        // The whole may have grown since this answer.
        { x: x(data.from), y: 0, width: x(data.to) - x(data.from), height: HEIGHT },
      );
    },
    [columns, paints, data.from, data.to],
  );
  return (
    <Strip
      label={`The whole run, ${seconds((bounds[1] - bounds[0]) / 1000)}, as shares of rows in each state.`}
      keys="The whole run. Arrows move the part that is shown, plus and minus change its width, f shows all."
      height={HEIGHT}
      paint={paint}
      view={view}
      bounds={bounds}
      onView={onView}
    />
  );
}
