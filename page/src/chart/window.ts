// Which rows of a long list are in sight. Heights are known beforehand, so nothing has to be measured: this is all
// that the page needs of a virtual list, in a fortieth of the size of a library for it.
import { useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

const OVERSCAN_PX = 240; // rows just outside are there already when they scroll in

export interface WindowItem {
  index: number;
  /** CSS pixels from the top of the list. */
  start: number;
  key: number;
}

/**
 * Rows in sight of `count`, the element that scrolls (`ref`), and the height of all. `height`: of each row, or of the
 * row at an index; `signature` tells that heights at the same indices have changed.
 */
export function useWindow(count: number, height: number | ((index: number) => number), signature = "") {
  const ref = useRef<HTMLDivElement>(null);
  const [, draw] = useReducer((turn: number) => turn + 1, 0);
  const starts = useMemo(() => {
    const all = new Float64Array(count + 1);
    for (let index = 0; index < count; index += 1) all[index + 1] = (all[index] ?? 0) + (typeof height === "number" ? height : height(index));
    return all;
  }, [count, signature, typeof height === "number" ? height : 0]);
  const size = starts[count] ?? 0;
  const at = (index: number): number => starts[Math.min(count, Math.max(0, index))] ?? 0;

  /** The row that covers a place. */
  const rowAt = (place: number): number => {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at(middle + 1) <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const top = ref.current?.scrollTop ?? 0;
  const seen = ref.current?.clientHeight ?? 0;
  const [first, last] = [rowAt(top - OVERSCAN_PX), Math.min(count, rowAt(top + seen + OVERSCAN_PX) + 1)];
  const items: WindowItem[] = Array.from({ length: Math.max(0, last - first) }, (_, place) => ({
    index: first + place,
    start: at(first + place),
    key: first + place,
  }));
  const range = useRef("");
  range.current = `${first}/${last}`;
  const latest = useRef<() => string>(() => "");
  latest.current = () => {
    const element = ref.current;
    if (!element) return "";
    return `${rowAt(element.scrollTop - OVERSCAN_PX)}/${Math.min(count, rowAt(element.scrollTop + element.clientHeight + OVERSCAN_PX) + 1)}`;
  };

  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    // Scrolling within the same rows draws nothing.
    const look = (): void => {
      if (latest.current() !== range.current) draw(0);
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  // The first drawing has no element to ask, a shorter list scrolls by itself: look again after each.
  useLayoutEffect(() => {
    if (latest.current() !== range.current) draw(0);
  });

  const scrollToIndex = (index: number, _: { align?: "auto" } = {}): void => {
    const element = ref.current;
    if (!element) return;
    const head = element.querySelector<HTMLElement>(".head")?.offsetHeight ?? 0;
    if (at(index) < element.scrollTop) element.scrollTop = at(index);
    else if (at(index + 1) + head > element.scrollTop + element.clientHeight) element.scrollTop = at(index + 1) + head - element.clientHeight;
  };
  return { ref, virtual: { scrollToIndex }, items, size };
}
