// What lies under the cursor, and what comes next in a row: an index of intervals by row.

export interface Interval {
  row: number;
  start: number;
  end: number;
}

export class Hits<T extends Interval> {
  private rows = new Map<number, { items: T[]; reach: number[] }>();

  constructor(items: readonly T[]) {
    for (const item of items) {
      const row = this.rows.get(item.row);
      if (row) row.items.push(item);
      else this.rows.set(item.row, { items: [item], reach: [] });
    }
    for (const row of this.rows.values()) {
      row.items.sort((a, b) => a.start - b.start || b.end - a.end);
      // The latest end so far: where it lies before the cursor, nothing further left can reach it.
      let reach = -Infinity;
      row.reach = row.items.map((item) => (reach = Math.max(reach, item.end)));
    }
  }

  /** The innermost interval of the row at `time`, else the nearest within `slack`. */
  at(row: number, time: number, slack = 0): T | null {
    const found = this.rows.get(row);
    if (!found) return null;
    const { items, reach } = found;
    let nearest: T | null = null;
    let distance = slack;
    const first = after(items, time + slack);
    for (let i = first - 1; i >= 0 && reach[i]! >= time - slack; i--) {
      const item = items[i]!;
      if (item.start <= time && time <= item.end) return item;
      const away = item.start > time ? item.start - time : time - item.end;
      if (away <= distance) [nearest, distance] = [item, away];
    }
    return nearest;
  }

  /** The next (1) or previous (-1) interval of the row by start. */
  step(row: number, time: number, direction: 1 | -1): T | null {
    const items = this.rows.get(row)?.items ?? [];
    const index = after(items, time);
    if (direction > 0) return items[index] ?? null;
    for (let i = index - 1; i >= 0; i--) if (items[i]!.start < time) return items[i]!;
    return null;
  }
}

/** Index of the first item that starts later than `time`. */
function after(items: readonly Interval[], time: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle]!.start > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
