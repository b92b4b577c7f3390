// Who does what when: rows of trainer, ranks and replicas, from the whole run down to one request.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Steps, Timeline } from "../api";
import { isReport, useAnswer } from "../api";
import { Frame } from "../chart/frame";
import { clamp, same, zoom, type Range } from "../chart/range";
import { count, seconds, share } from "../format";
import { selectTimes, stepsOf, timesOf } from "../link";
import { adjust, go, lanes as laneFilter, param, steps as stepRange, times } from "../state";
import { cellsOf, fleetOf, MANY, worst, type Order } from "./timeline/cells";
import { Fleet } from "./timeline/fleet";
import { parse, select } from "./timeline/grammar";
import { Lanes } from "./timeline/lanes";
import { Legend } from "./timeline/legend";
import { Minimap } from "./timeline/minimap";
import { Stragglers } from "./timeline/stragglers";
import { Toolbar } from "./timeline/toolbar";
import { isWeights } from "./looks";
import "./views.css";

const TOP = 16;
/** A gesture is many ranges; only where it rests is asked for and put into the URL. */
const REST_MS = 150;

/** How many columns to ask for: few sizes, so that a window that is dragged wider asks rarely. */
const columnsOf = (width: number): number => Math.min(2400, Math.max(300, Math.ceil(width / 100) * 100));

export function View({ run }: { run: string }): JSX.Element {
  const path = `/api/runs/${encodeURIComponent(run)}/timeline`;
  const [width, setWidth] = useState(() => columnsOf(window.innerWidth - 200));
  const steps = useAnswer<Steps>(`/api/runs/${encodeURIComponent(run)}/steps`, { bins: 100_000 });
  const whole = useAnswer<Timeline>(path, { width: 600 });
  const chosen = times.value ?? (stepRange.value ? timesOf(steps.value, stepRange.value) : null);
  const [moving, setMoving] = useState<Range | null>(null);
  const filter = useMemo(() => parse(laneFilter.value), [laneFilter.value]);
  const map = whole.value;
  // All rows are here, so typing filters at once; only of more rows than are sent the server must choose.
  const remote = !isReport && map !== undefined && map.total_lanes > map.lanes.length && filter.mistakes.length === 0;
  const byWeights = param("colour") === "weights";
  const asked = {
    ...(byWeights && !isReport ? { colour: "weights" } : {}),
    ...(chosen ? { from: chosen[0], to: chosen[1] } : {}),
    ...(remote && laneFilter.value ? { filter: laneFilter.value } : {}),
    width,
  };
  const answer = useAnswer<Timeline>(path, asked);
  const data = answer.value;
  const bounds: Range = map && map.to > map.from ? [map.from, map.to] : data ? [data.from, data.to] : [0, 1];
  const view = clamp(moving ?? chosen ?? bounds, bounds);

  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const show = (next: Range): void => {
    // A brush of a pixel is a slip.
    const wanted = next[1] - next[0] < 1 ? zoom(next, 1, next[0], bounds) : clamp(next, bounds);
    setMoving(wanted);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      selectTimes(same(wanted, bounds) ? null : wanted, steps.value);
      setMoving(null);
    }, REST_MS);
  };
  const stepBy = (direction: 1 | -1): void => {
    const { start = [], end = [] } = steps.value ?? {};
    const middle = (view[0] + view[1]) / 2;
    const all = start.flatMap((from, index): Range[] => (from !== null && end[index] != null ? [[from, end[index]!]] : []));
    const now = all.findIndex(([from, to]) => middle >= from && middle <= to);
    // From the whole run the first press goes to the step at its end or start.
    const inside = view[1] - view[0] < (bounds[1] - bounds[0]) * 0.98;
    const next = inside && now >= 0 ? all[now + direction] : all[direction > 0 ? 0 : all.length - 1];
    if (next) show([next[0] - (next[1] - next[0]) * 0.02, next[1] + (next[1] - next[0]) * 0.02]);
  };
  const stepAt = useMemo(() => {
    const { steps: numbers = [], start = [], end = [] } = steps.value ?? {};
    return (time: number): number | null => {
      const index = start.findIndex((from, n) => from !== null && time >= from && time <= (end[n] ?? -Infinity));
      return numbers[index] ?? null;
    };
  }, [steps.value]);

  const rows = useMemo(() => (data ? (remote ? data.lanes.map((_, row) => row) : select(data.lanes, filter)) : []), [data, filter, remote]);
  const order = (["gap", "idle", "errors"].includes(param("order")) ? param("order") : "gap") as Order;
  const many = rows.length > MANY;
  // Of more rows than were sent the worst may be among the others.
  const elsewhere = useAnswer<Timeline>(many && remote ? path : null, { ...asked, order, rows: TOP }).value;
  const bad = elsewhere ? { data: elsewhere, rows: elsewhere.lanes.map((_, row) => row) } : { data, rows };
  const top = useMemo(() => (bad.data && many ? worst(bad.data.lanes, bad.rows, order, TOP) : []), [bad.data, rows, many, order]);
  const columns = useMemo(() => (data && many ? fleetOf(data, rows) : []), [data, rows, many]);
  const cells = data ? cellsOf(data) : null;
  const open = (trace: string, span: string): void => go("trace", { trace, span });
  const shared = data && {
    data,
    cells,
    view,
    bounds,
    origin: bounds[0],
    byWeights,
    stepAt,
    onView: show,
    onStep: stepBy,
    onOpen: open,
    onLane: (lane: string) => adjust({ lanes: laneFilter.value === lane ? null : lane }),
    onWidth: (w: number) => w > 0 && setWidth(columnsOf(w)),
  };
  const empty =
    data && data.lanes.length === 0
      ? "No rows yet: no phase, rank or replica has told of its work. Rows come with the first spans; `verl-otel doctor` says whether they arrive."
      : null;
  return (
    <div class="view timeline-view">
      <Frame
        title="Who does what when?"
        question="Who works, who waits, and for whom?"
        good="Good: rows full of colour; hatching (idle or waiting) short and the same for all."
        note={
          data
            ? `${count(rows.length)} of ${count(data.total_lanes)} rows, ${seconds((view[1] - view[0]) / 1000)}${data.spans ? `, ${count(data.spans.length)} spans` : ""}`
            : undefined
        }
        answer={answer}
        empty={empty}
        height={data ? 0 : 360}
        table={() => tableOf(data!, rows)}
      >
        <Toolbar
          filter={filter}
          states={data?.states ?? []}
          order={order}
          byWeights={byWeights}
          many={many}
          onFit={() => show(bounds)}
          onStep={stepBy}
          onZoom={(factor) => show(zoom(view, factor, (view[0] + view[1]) / 2, bounds))}
        />
        {map ? <Minimap data={map} view={view} bounds={bounds} onView={show} /> : null}
        {data && rows.length === 0 ? (
          <p class="empty">No row fits the filter. Take a term away, or press × to see all {count(data.lanes.length)}.</p>
        ) : null}
        {shared && many ? (
          <>
            <h4>The fleet</h4>
            <Fleet data={shared.data} columns={columns} rows={rows.length} view={view} bounds={bounds} origin={bounds[0]} onView={show} />
            <h4>
              {top.length} of {count(bad.data === data ? rows.length : data!.total_lanes)} rows, the worst by{" "}
              {order === "gap" ? "seconds over the median" : order === "idle" ? "idle share" : "errors"}
            </h4>
            <Lanes {...shared} data={bad.data!} cells={cellsOf(bad.data!)} id="worst" title="The worst rows" rows={top} />
            <h4>
              {data!.lanes.length < data!.total_lanes ? `The first ${count(rows.length)} of ${count(data!.total_lanes)} rows` : `All ${count(rows.length)} rows`}
            </h4>
          </>
        ) : null}
        {shared && rows.length ? <Lanes {...shared} id="lanes" title="Timeline" rows={rows} /> : null}
        {data?.spans?.length === 0 ? <p class="muted">Nothing was told of this time.</p> : null}
        {data ? <Legend states={data.states} weights={byWeights && (data.spans !== null || data.states.some(isWeights))} /> : null}
        {data && data.lanes.length < data.total_lanes ? (
          <p class="muted">
            {count(data.lanes.length)} of {count(data.total_lanes)} rows were sent: a filter shows others.
          </p>
        ) : null}
      </Frame>
      <Stragglers run={run} range={stepRange.value ?? (chosen && stepsOf(steps.value, chosen))} />
    </div>
  );
}

function tableOf(data: Timeline, rows: readonly number[]) {
  return {
    caption: "Rows of the timeline",
    columns: ["row", "kind", "host", "rank", "replica", "idle", "seconds over median", "errors"],
    rows: rows.map((row) => {
      const lane = data.lanes[row]!;
      return [lane.lane, lane.kind, lane.host, lane.rank, lane.replica, share(lane.idle), seconds(lane.gap_s), lane.errors];
    }),
  };
}
