// A wall of charts in groups that can be folded; rows of charts exist only while they are near the screen.
import type { ComponentChildren } from "preact";
import { useWidth } from "../../chart/use";
import { useWindow } from "../../chart/window";
import { adjust, listText, param } from "../../state";
import type { CardKeys } from "./families";

interface Group {
  title: string;
  cards: readonly CardKeys[];
}
type Row = { title: string; count: number; folded: boolean } | { cards: readonly CardKeys[]; group: string };

const LEAST = 380;
const HEAD = 32;
const ROW = 236;

export function Wall({ groups, card }: { groups: readonly Group[]; card: (card: CardKeys) => ComponentChildren }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const columns = Math.max(1, Math.floor((width + 10) / (LEAST + 10)));
  const folded = param("folded").split(",").filter(Boolean).map(decodeURIComponent);
  const rows: Row[] = groups.flatMap(({ title, cards }) => {
    const isFolded = folded.includes(title);
    const lines: Row[] = [];
    for (let at = 0; at < cards.length && !isFolded; at += columns) lines.push({ cards: cards.slice(at, at + columns), group: title });
    return [{ title, count: cards.length, folded: isFolded }, ...lines];
  });
  const heights = rows.map((row) => ("title" in row ? HEAD : ROW));
  const { ref: scroller, items, size } = useWindow(rows.length, (index) => heights[index] ?? ROW, heights.join());
  const fold = (title: string): void =>
    adjust({ folded: listText(folded.includes(title) ? folded.filter((one) => one !== title) : [...folded, title]) });
  return (
    <div ref={scroller} class="wall">
      <div ref={box} style={{ height: size, position: "relative" }}>
        {width > 0 &&
          items.map(({ index, start }) => {
            const row = rows[index];
            return (
              row && (
                <div key={"title" in row ? `# ${row.title}` : `${row.group} ${row.cards[0]?.name}`} class="wall-row" style={{ transform: `translateY(${start}px)`, gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
                  {"title" in row ? (
                    <h2>
                      <button type="button" class="quiet" aria-expanded={!row.folded} onClick={() => fold(row.title)}>
                        <span aria-hidden="true">{row.folded ? "▸" : "▾"}</span> {row.title} <span class="muted">{row.count}</span>
                      </button>
                    </h2>
                  ) : (
                    row.cards.map(card)
                  )}
                </div>
              )
            );
          })}
      </div>
    </div>
  );
}
