// The rows of a trace: a tree that is folded by keys, with only the rows in the document that are seen.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { phaseVar } from "../../colors";
import { TimeAxis } from "../../chart/axis";
import type { Range } from "../../chart/range";
import { useWindow } from "../../chart/table";
import { useWidth } from "../../chart/use";
import { seconds } from "../../format";
import { part, type Node } from "./layout";
import { kindOf, whereOf } from "./names";

const ROW = 26;

export interface WaterfallProps {
  rows: readonly Node[];
  folded: ReadonlySet<string>;
  found: ReadonlySet<string>;
  selected: string | null;
  view: Range;
  origin: number;
  onSelect: (node: Node) => void;
  onFold: (node: Node, fold: boolean) => void;
  onKey: (event: KeyboardEvent, node: Node | undefined) => boolean;
}

export function Waterfall({ rows, folded, found, selected, view, origin, onSelect, onFold, onKey }: WaterfallProps): JSX.Element {
  const { ref, virtual, items, size } = useWindow(rows.length, ROW);
  const [axis, width] = useWidth<HTMLDivElement>();
  const index = useMemo(() => rows.findIndex(({ span }) => span.span === selected), [rows, selected]);
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (index < 0 || shown.current === selected) return;
    shown.current = selected;
    virtual.scrollToIndex(index, { align: "auto" });
  }, [index, selected]);

  const step = (to: number): void => {
    const node = rows[Math.min(rows.length - 1, Math.max(0, to))];
    if (node) onSelect(node);
  };
  const keys = (event: KeyboardEvent): void => {
    const node = rows[index];
    const move: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length };
    const by = move[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (by !== undefined) step(index < 0 ? 0 : index + by);
    else if (event.key === "ArrowRight" && node?.children.length) {
      if (folded.has(node.span.span)) onFold(node, false);
      else step(index + 1);
    } else if (event.key === "ArrowLeft" && node) {
      if (node.children.length && !folded.has(node.span.span)) onFold(node, true);
      else if (node.parent) onSelect(node.parent);
    } else if (!onKey(event, node)) return;
    event.preventDefault();
  };
  return (
    <div class="waterfall">
      <div class="waterfall-head" aria-hidden="true">
        <span>span</span>
        <span class="num">duration</span>
        <div ref={axis}>
          <TimeAxis range={view} origin={origin} width={Math.max(1, width)} />
        </div>
      </div>
      <div
        class="waterfall-rows"
        ref={ref}
        role="treegrid"
        tabIndex={0}
        aria-label="Spans. Up and down move, left and right fold and unfold, c goes along the critical path, e to the next error, z zooms to the span, f shows all, Enter reads its attributes."
        aria-rowcount={rows.length}
        aria-activedescendant={index >= 0 ? `span-${selected}` : undefined}
        onKeyDown={keys}
      >
        <div role="rowgroup" style={{ height: `${size}px`, position: "relative" }}>
          {items.map((item) => {
            const node = rows[item.index]!;
            return (
              <Row
                key={node.span.span}
                node={node}
                index={item.index}
                top={item.start}
                folded={folded.has(node.span.span)}
                found={found.has(node.span.span)}
                selected={item.index === index}
                view={view}
                onSelect={onSelect}
                onFold={onFold}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  node: Node;
  index: number;
  top: number;
  folded: boolean;
  found: boolean;
  selected: boolean;
  view: Range;
  onSelect: (node: Node) => void;
  onFold: (node: Node, fold: boolean) => void;
}

function Row({ node, index, top, folded, found, selected, view, onSelect, onFold }: RowProps): JSX.Element {
  const { span, children, critical, moved_s } = node;
  const took = (span.end - span.start) / 1000;
  const parent = children.length > 0;
  return (
    <div
      id={`span-${span.span}`}
      role="row"
      class={`span-row${selected ? " selected" : ""}${found ? " found" : ""}${critical ? " critical" : ""}`}
      style={{ transform: `translateY(${top}px)`, height: `${ROW}px` }}
      aria-level={node.depth + 1}
      aria-rowindex={index + 1}
      aria-selected={selected}
      aria-expanded={parent ? !folded : undefined}
      onClick={() => onSelect(node)}
      onDblClick={() => parent && onFold(node, !folded)}
    >
      <div role="gridcell" class="span-name" style={{ paddingLeft: `${Math.min(node.depth, 24) * 14 + 4}px` }}>
        {parent ? (
          <button
            type="button"
            class="fold"
            tabIndex={-1}
            aria-label={folded ? `Unfold ${node.below} spans` : "Fold"}
            onClick={(event) => (event.stopPropagation(), onFold(node, !folded))}
          >
            {folded ? "▸" : "▾"}
          </button>
        ) : (
          <span class="fold" />
        )}
        {critical ? (
          <span class="critical-mark" title="On the critical path: the step would be shorter if this were">
            ◆
          </span>
        ) : null}
        {span.error ? (
          <span class="error-text" title={span.message ?? "failed"}>
            ✕
          </span>
        ) : null}
        <span class="text">{span.name}</span>
        {span.folded ? (
          <span class="badge" title={`${span.folded} ranks did the same; this row stands for them`}>
            ×{span.folded}
          </span>
        ) : null}
        {folded ? (
          <span class="badge" title="Spans folded below">
            +{node.below}
          </span>
        ) : null}
        {folded && node.errorsBelow ? <span class="badge error-text">✕{node.errorsBelow}</span> : null}
        {moved_s !== null ? (
          <span class="badge" title="Its clock differs from its parent's: moved by this">
            clock {moved_s > 0 ? "+" : "−"}
            {seconds(Math.abs(moved_s))}
          </span>
        ) : null}
        {node.orphan ? (
          <span class="badge" title="Its parent is not in this trace: lost, not yet arrived, or not sampled">
            parent missing
          </span>
        ) : null}
        <span class="muted where">{whereOf(span)}</span>
      </div>
      <div role="gridcell" class="num">
        {seconds(took)}
      </div>
      <div role="gridcell" class="bar-cell">
        <Bar node={node} folded={folded} view={view} />
      </div>
    </div>
  );
}

function Bar({ node, folded, view }: { node: Node; folded: boolean; view: Range }): JSX.Element | null {
  const { span, critical } = node;
  const whole = view[1] - view[0];
  const left = ((span.start - view[0]) / whole) * 100;
  const width = ((span.end - span.start) / whole) * 100;
  const [from, to] = [Math.max(0, left), Math.min(100, left + width)];
  if (to < 0 || from > 100) return <span class="beyond muted">{left > 100 ? "later →" : "← earlier"}</span>;
  const kind = kindOf(span);
  const classes = `span-bar${critical ? " critical" : ""}${span.error ? " failed" : ""}`;
  return (
    <>
      <div class={classes} style={{ left: `${from}%`, width: `${Math.max(0, to - from)}%`, background: phaseVar(kind) }} />
      {folded ? (
        <svg class="span-part" viewBox="0 0 1000 2" preserveAspectRatio="none" aria-hidden="true">
          <path
            d={part(node, whole / 500)
              .map(
                ([start, end]) => `M${(((start - view[0]) / whole) * 1000).toFixed(1)} 1H${(((end - view[0]) / whole) * 1000).toFixed(1)}`,
              )
              .join("")}
          />
        </svg>
      ) : null}
      {span.events.map(({ time, name }) => {
        const at = ((time - view[0]) / whole) * 100;
        return at >= 0 && at <= 100 ? <span key={`${time}${name}`} class="event-mark" style={{ left: `${at}%` }} title={name} /> : null;
      })}
    </>
  );
}
