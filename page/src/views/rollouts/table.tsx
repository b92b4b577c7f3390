// The trajectories, sorted by the server; bars in cells compare the rows that are here.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Trajectory } from "../../api";
import { Windowed } from "../../chart/table";
import { phaseVar } from "../../colors";
import { barOf, COLUMNS, OUTCOME_MARKS, reach, type ColumnOf } from "./model";

export interface TableProps {
  rows: readonly Trajectory[];
  sort: string;
  descending: boolean;
  opened: string;
  onSort: (sort: string) => void;
  onOpen: (row: Trajectory) => void;
  onEnd: () => void;
}

export function Table({ rows, sort, descending, opened, onSort, onOpen, onEnd }: TableProps): JSX.Element {
  const scales = useMemo(() => COLUMNS.map(({ value }) => (value ? reach(rows, value) : null)), [rows]);
  return (
    <Windowed
      label="Trajectories"
      columns={COLUMNS.map((column) => ({
        title: column.title,
        width: column.width,
        ...(column.number ? { number: true } : {}),
        ...(column.help ? { help: column.help } : {}),
        ...(column.sort
          ? {
              sorted: column.sort === sort && (descending ? ("descending" as const) : ("ascending" as const)),
              onSort: () => onSort(column.sort!),
            }
          : {}),
      }))}
      count={rows.length}
      height={520}
      rowHeight={26}
      row={(index) =>
        COLUMNS.map((column, place) => <Cell key={column.title} row={rows[index]!} column={column} scale={scales[place] ?? null} />)
      }
      rowClass={(index) => (`${rows[index]!.trace}/${rows[index]!.span}` === opened ? "chosen" : "")}
      onOpen={(index) => onOpen(rows[index]!)}
      onEnd={onEnd}
      empty="No trajectory fits. Take a part of the filter away."
    />
  );
}

function Cell({ row, column, scale }: { row: Trajectory; column: ColumnOf; scale: ReturnType<typeof reach> }): JSX.Element {
  const text = column.text(row);
  if (column.title === "outcome") {
    return (
      <span class={row.outcome === "failed" ? "error-text" : ""}>
        {OUTCOME_MARKS[row.outcome ?? ""] ?? ""} {text}
      </span>
    );
  }
  const bar = column.value ? barOf(column.value(row), scale) : null;
  if (!column.value) return <span title={text}>{text}</span>;
  const color = column.title === "reward" ? phaseVar("reward") : column.title === "seconds" ? phaseVar("unknown") : phaseVar("gen");
  return (
    <span class="bar-number">
      {bar ? <i style={{ left: `${bar[0] * 100}%`, width: `${(bar[1] - bar[0]) * 100}%`, "--of": color }} /> : null}
      <span>{text}</span>
    </span>
  );
}
