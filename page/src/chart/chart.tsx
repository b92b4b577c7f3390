// A uPlot with a life: built once, fed with new data, zoomed by mouse and keys, read out in words.
import { signal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { xText } from "../format";
import { hover, theme, type Range, type XAxis } from "../state";
import { bindKeys, extent, limit } from "./keys";
import { Legend, type LegendItem } from "./legend";
import { axes, drawMarks, drawOutside, drawThresholds, hiddenThresholds, logRange, nameThresholds, yRange, type PlacedMark, type Threshold } from "./plot";
import { useWidth } from "./use";

export interface Content {
  /** As drawn: x first; `undefined` is "another line's x", null a gap. */
  data: uPlot.AlignedData;
  series: uPlot.Series[];
  bands?: uPlot.Band[];
  legend: LegendItem[];
  outside?: { top: readonly number[]; bottom: readonly number[]; color: string }[];
  /** Room left and right in x, for bars. */
  pad?: number;
}

export interface ChartProps {
  /** What is seen, as one sentence for who doesn't see it. */
  label: string;
  x: XAxis;
  unit: string;
  height?: number;
  log?: boolean;
  /** Bars and areas start at 0. */
  zero?: boolean;
  thresholds?: readonly Threshold[];
  marks?: readonly PlacedMark[];
  /** Charts with one name share their cursor; by default all with the same x axis. "" shares with none. */
  sync?: string;
  /** The zoom, where the page holds it (null: everything); undefined: the chart holds its own. */
  range?: Range | null | undefined;
  onRange?: (range: Range | null) => void;
  /** All of x where it is more than this chart's own: charts below each other line up. */
  full?: Range | undefined;
  /** Opens what is under the cursor. */
  onOpen?: (x: number) => void;
  /** Fixes the y axis, e.g. [0, 1] for shares. */
  yLimits?: Range;
  legend?: boolean;
  children?: ComponentChildren;
}

export function Chart(props: ChartProps & { content: Content; shape: string }) {
  const { label, x, unit, height = 170, log = false, zero = false, content, shape, sync = "all", yLimits } = props;
  const [box, width] = useWidth<HTMLDivElement>();
  const latest = useRef(props);
  latest.current = props;
  const plot = useRef<uPlot | null>(null);
  const index = useMemo(() => signal<number | null>(null), []);
  const locked = useMemo(() => signal(false), []);
  const spoken = useMemo(() => signal(""), []);
  const outside = useMemo(() => signal(""), []);
  const [own, setOwn] = useState<Range | null>(null);
  const held = props.range !== undefined;
  const zoom = held ? (props.range ?? null) : own;
  const id = useId();

  const setZoom = (range: Range | null): void => {
    const { range: outer, onRange } = latest.current;
    if (outer === undefined) setOwn(range);
    onRange?.(range);
  };
  const full = props.full ?? extent(content, x);
  const show = zoom ?? full;
  const ready = width > 0;

  useLayoutEffect(() => {
    const element = box.current;
    if (!ready || !element) return undefined;
    const made = new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        ms: 1,
        scales: {
          x: { time: false, range: (u, low, high) => limit(u, low, high) },
          y: log ? { distr: 3, range: logRange } : { range: yLimits ? () => [yLimits[0], yLimits[1]] : yRange(zero, () => latest.current.thresholds ?? []) },
        },
        axes: axes(x, unit, height < 140, log),
        series: [{}, ...content.series],
        bands: content.bands ?? [],
        padding: [12, 18, 0, 0], // above: letters of the marks; right: half of the last label
        cursor: {
          y: false,
          lock: true,
          points: { show: false },
          drag: { x: true, y: false, setScale: false, dist: 5 },
          ...(sync === "" ? {} : { sync: { key: `${sync}/${x}`, scales: ["x", null] as [string, null], filters: { pub: (type: string) => type === "mousemove" || type === "mouseleave", sub: () => true } } }),
          bind: { dblclick: () => () => (setZoom(null), null) },
        },
        hooks: {
          setCursor: [
            (u) => {
              index.value = u.cursor.idx ?? null;
              locked.value = (u.cursor as { _lock?: boolean })._lock === true;
              const at = u.cursor.idx == null ? undefined : u.data[0][u.cursor.idx];
              if (u.cursor.event && x !== "elapsed") hover.value = at === undefined ? null : x === "step" ? { step: at } : { time: at };
            },
          ],
          setSelect: [
            (u) => {
              const { left, width: wide } = u.select;
              if (wide < 4) return;
              // uPlot takes the end of a drag for a click, too, and would pin the cursor: it turns this over next.
              (u.cursor as { _lock?: boolean })._lock = true;
              setZoom([u.posToVal(left, "x"), u.posToVal(left + wide, "x")]);
              u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
          drawAxes: [(u) => drawThresholds(u, latest.current.thresholds ?? [])],
          draw: [
            (u) => {
              outside.value = hiddenThresholds(u, latest.current.thresholds ?? []);
              nameThresholds(u, latest.current.thresholds ?? []);
              drawMarks(u, latest.current.marks ?? []);
              for (const one of latest.current.content.outside ?? []) drawOutside(u, one.top, one.bottom, one.color);
            },
          ],
        },
      },
      content.data,
      element,
    );
    made.setScale("x", { min: show[0], max: show[1] });
    const canvas = made.ctx.canvas;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", latest.current.label);
    plot.current = made;
    drawn.current = { content, from: show[0], to: show[1] };
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [ready, shape, theme.value, log, unit, x, height, zero, sync]);

  // Only what changed is drawn again; a live chart that is zoomed stays where it is.
  const drawn = useRef<{ content: Content; from: number; to: number } | null>(null);
  useLayoutEffect(() => {
    const made = plot.current;
    const last = drawn.current;
    if (!made || !last || (last.content === content && last.from === show[0] && last.to === show[1])) return;
    made.batch(() => {
      if (last.content !== content) made.setData(content.data, false);
      made.setScale("x", { min: show[0], max: show[1] });
    });
    drawn.current = { content, from: show[0], to: show[1] };
  });
  useLayoutEffect(() => {
    if (plot.current && plot.current.width !== width) plot.current.setSize({ width, height });
  }, [width, height]);
  useLayoutEffect(() => plot.current?.redraw(false), [props.marks, props.thresholds]);
  useLayoutEffect(() => plot.current?.ctx.canvas.setAttribute("aria-label", label), [label]);
  useSignalEffect(() => {
    const place = index.value; // read before any return: an effect follows what it has read
    if (document.activeElement !== box.current) return;
    const at = place === null ? undefined : plot.current?.data[0][place];
    const say = at === undefined ? "" : latest.current.content.legend.map((one) => `${one.label} ${one.value(place)}`).join(", ");
    spoken.value = at === undefined ? "" : `${xText(at, x)}: ${say}`;
  });

  const keys = bindKeys({ plot, zoom: () => zoom, full: () => full, setZoom, open: () => latest.current.onOpen, locked });
  const xs = content.data[0];
  const known = useRef({ zoomed: false, last: 0 });
  if (!zoom || !known.current.zoomed) known.current = { zoomed: zoom !== null, last: xs.at(-1) ?? 0 };
  const fresh = zoom ? xs.filter((one) => one > known.current.last).length : 0;
  return (
    <div class="chart">
      {props.legend !== false && (
        <Legend
          items={content.legend}
          index={index}
          locked={locked}
          x={x}
          at={(place) => plot.current?.data[0][place] ?? xs[place]}
          marks={props.marks ?? []}
          onOpen={props.onOpen}
          outside={outside}
        >
          {zoom && (
            <button type="button" class="fit small" onClick={() => setZoom(null)} title="Everything again (f)">
              {fresh > 0 ? `${fresh} new · fit` : "fit"}
            </button>
          )}
        </Legend>
      )}
      {/* The box takes the keys; the canvas in it is the picture. */}
      <div
        ref={box}
        class="plot"
        style={{ height }}
        tabIndex={0}
        role="group"
        aria-label={`${label} Arrows move the cursor, plus and minus zoom.`}
        aria-describedby={id}
        onKeyDown={keys}
        onBlur={() => (spoken.value = "")}
      />
      <p id={id} class="unseen" aria-live="polite">
        {spoken}
      </p>
      {props.children}
    </div>
  );
}
