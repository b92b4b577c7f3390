// Tables whose rows are only there where they are seen: 100,000 rows scroll as 30 do.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ABSENT, number } from "../format";
import { useWindow } from "./window";

export { useWindow } from "./window";

export interface TableData {
  caption?: string;
  columns: readonly string[];
  rows: readonly (readonly (string | number | null | undefined)[])[];
}

const cell = (value: string | number | null | undefined): string =>
  typeof value === "number" ? number(value, 6) : (value ?? ABSENT);

/** The twin of a picture. */
export function DataTable({ caption, columns, rows }: TableData) {
  return (
    <Windowed
      label={caption ?? "The picture as a table"}
      columns={columns.map((title) => ({ title, help: title, width: "minmax(6.5em, 1fr)" }))}
      count={rows.length}
      height={320}
      row={(index) => (rows[index] ?? []).map((value) => <span class={typeof value === "number" ? "num" : ""}>{cell(value)}</span>)}
    />
  );
}

export interface Column {
  title: ComponentChildren;
  /** Sorting by this column: its direction now, or false where it is another's. */
  sorted?: "ascending" | "descending" | false;
  onSort?: () => void;
  number?: boolean;
  /** A CSS width; columns without one share what is left. */
  width?: string;
  help?: string;
}

export interface WindowedProps {
  label: string;
  columns: readonly Column[];
  count: number;
  /** The cells of a row. */
  row: (index: number) => ComponentChildren[];
  rowHeight?: number;
  /** The most that it takes, in CSS pixels. */
  height?: number;
  onOpen?: (index: number) => void;
  rowClass?: (index: number) => string;
  /** Called when the rows near the end are seen: read more. */
  onEnd?: () => void;
  empty?: string;
}

/** The least a column takes; header and rows are grids of their own and have to agree on one width. */
function pixels(width = "4.5em"): number {
  const [, size, unit] = /([\d.]+)(em|px)/.exec(width) ?? [];
  return Number(size ?? 0) * (unit === "em" ? 13 : 1);
}

export function Windowed({ label, columns, count, row, rowHeight = 28, height = 600, onOpen, rowClass, onEnd, empty }: WindowedProps) {
  const { ref, virtual, items, size } = useWindow(count, rowHeight);
  const [focused, setFocused] = useState(0);
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (count > 0 && last >= count - 10) onEnd?.();
  }, [last, count]);
  const template = columns.map((one) => one.width ?? "minmax(4.5em, 1fr)").join(" ");
  const least = columns.reduce((sum, one) => sum + pixels(one.width), 0);
  const move = (index: number): void => {
    const next = Math.min(count - 1, Math.max(0, index));
    setFocused(next);
    virtual.scrollToIndex(next);
    window.requestAnimationFrame(() => ref.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus());
  };
  const keys = (event: KeyboardEvent): void => {
    if (!(event.target as HTMLElement).dataset.row) return; // a control inside a row has keys of its own
    const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -count, End: count };
    if (event.key in by) move(focused + (by[event.key] ?? 0));
    else if (event.key === "Enter" && onOpen) onOpen(focused);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="windowed" style={{ "--columns": template, "--least": `${least}px` }}>
      <div class="scroller" ref={ref} role="table" aria-label={label} aria-rowcount={count + 1} style={{ maxHeight: height }} onKeyDown={keys} tabIndex={-1}>
        <div role="rowgroup" class="head">
          <div role="row" class="row" aria-rowindex={1}>
            {columns.map((one, index) => (
              <div key={index} role="columnheader" class={one.number ? "num" : ""} aria-sort={one.sorted || "none"} title={one.help}>
                {one.onSort ? (
                  <button type="button" class="sort" onClick={one.onSort}>
                    {one.title}
                    <span aria-hidden="true">{one.sorted ? (one.sorted === "ascending" ? " ▲" : " ▼") : ""}</span>
                  </button>
                ) : (
                  one.title
                )}
              </div>
            ))}
          </div>
        </div>
        <div role={count === 0 ? undefined : "rowgroup"} style={{ height: size, position: "relative" }}>
          {items.map(({ index, start }) => (
            <div
              key={index}
              role="row"
              class={`row ${onOpen ? "opens" : ""} ${rowClass?.(index) ?? ""}`}
              aria-rowindex={index + 2}
              data-row={index}
              tabIndex={index === focused ? 0 : -1}
              style={{ transform: `translateY(${start}px)`, height: rowHeight }}
              onFocus={() => setFocused(index)}
              onClick={(event) => {
                if (!(event.target as HTMLElement).closest("a,button,input,label")) onOpen?.(index);
              }}
            >
              {row(index).map((content, place) => (
                <div key={place} role="cell" class={columns[place]?.number ? "num" : ""}>
                  {content}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
      {count === 0 && <p class="empty">{empty ?? "Nothing here."}</p>}
    </div>
  );
}
