// A small histogram of all trajectories that the filter leaves, not only of those in the table.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Histogram } from "../../api";
import { count, share } from "../../format";
import { bins } from "./model";

const [WIDTH, HEIGHT] = [240, 56];

export function Distribution({
  title,
  of,
  text,
  color,
}: {
  title: string;
  of: Histogram | null;
  text: (value: number) => string;
  color: string;
}): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const all = of ? bins(of) : [];
  const most = all.reduce((max, bin) => Math.max(max, bin.count), 0);
  const sum = all.reduce((total, bin) => total + bin.count, 0);
  const bar = WIDTH / Math.max(1, all.length);
  const name = (index: number): string => {
    const { from, to } = all[index]!;
    return from === null ? `up to ${text(to ?? 0)}` : to === null ? `over ${text(from)}` : `${text(from)} to ${text(to)}`;
  };
  const words = at !== null && all[at] ? `${name(at)}: ${count(all[at]!.count)} (${share(all[at]!.count / Math.max(1, sum))})` : "";
  const ends = all.length ? [all[0]!.from ?? all[0]!.to, all[all.length - 1]!.to ?? all[all.length - 1]!.from] : [];
  return (
    <figure class="distribution">
      <figcaption>
        {title} <span class="muted">{words || (sum ? `${count(sum)} with a value` : "")}</span>
      </figcaption>
      {sum ? (
        <div
          tabIndex={0}
          role="group"
          aria-label={`Distribution of ${title}. Left and right read its bars.`}
          onKeyDown={(event) => {
            const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (!by) return;
            setAt(Math.min(all.length - 1, Math.max(0, (at ?? (by > 0 ? -1 : all.length)) + by)));
            event.preventDefault();
          }}
          onBlur={() => setAt(null)}
          onPointerLeave={() => setAt(null)}
        >
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${title}: ${all.map((_, index) => `${name(index)}: ${all[index]!.count}`).join("; ")}`}
          >
            {all.map((bin, index) => {
              const height = (bin.count / most) * (HEIGHT - 2);
              return (
                <g key={index} onPointerEnter={() => setAt(index)}>
                  <rect x={index * bar} y={0} width={bar} height={HEIGHT} fill="transparent" />
                  <rect
                    class={at === index ? "at" : ""}
                    x={index * bar + 0.5}
                    y={HEIGHT - Math.max(bin.count ? 1 : 0, height)}
                    width={Math.max(0.5, bar - 1)}
                    height={Math.max(bin.count ? 1 : 0, height)}
                    style={{ fill: color }}
                  />
                </g>
              );
            })}
          </svg>
          <div class="distribution-ends muted">
            <span>{ends[0] == null ? "" : text(ends[0])}</span>
            <span>{ends[1] == null ? "" : text(ends[1])}</span>
          </div>
          <p class="unseen" aria-live="polite">
            {words}
          </p>
        </div>
      ) : (
        <p class="muted">— not told for any of them</p>
      )}
    </figure>
  );
}
