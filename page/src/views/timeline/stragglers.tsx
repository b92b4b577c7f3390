// Which rank is slow, and is it always the same one?
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import { useAnswer, type Stragglers as Answer } from "../../api";
import { phaseVar } from "../../colors";
import { Canvas } from "../../chart/canvas";
import { Frame } from "../../chart/frame";
import type { Surface } from "../../chart/painter";
import { seconds } from "../../format";
import { adjust, param } from "../../state";
import { diverging, levelOf } from "./levels";

const DOTS = 600;

type Phase = Answer["phases"][number];
type Heat = NonNullable<Answer["heat"]>;

export function Stragglers({ run, range }: { run: string; range: readonly [number, number] | null }): JSX.Element {
  const answer = useAnswer<Answer>(`/api/runs/${encodeURIComponent(run)}/stragglers`, {
    ...(range ? { from: Math.ceil(range[0]), to: Math.floor(range[1]) } : {}),
    phase: param("phase") || null,
  });
  const { phases = [], heat = null } = answer.value ?? {};
  const few = answer.value && !phases.some(({ ranks }) => ranks.length > 1);
  const note = range ? `steps ${Math.ceil(range[0])} to ${Math.floor(range[1])}` : "all steps";
  return (
    <>
      <Frame
        title="Which rank straggles?"
        good="Good: all dots close to 0. A dot far to the right makes every other rank wait."
        note={`seconds over the median of the ranks, ${note}`}
        answer={answer}
        empty={few ? "Ranks can't be compared: fewer than two told of a worker call in these steps." : null}
        table={() => ({
          caption: "Seconds over the median by rank",
          columns: ["phase", "rank", "host", "over median (s)", "median (s)"],
          rows: phases.flatMap((one) => one.ranks.map((rank, n) => [one.phase, rank, one.hosts[n], one.over_s[n], one.median_s])),
        })}
      >
        <div class="straggler-strips">
          {phases.map((phase) => (
            <Strip key={phase.phase} {...phase} shown={phase.phase === heat?.phase} />
          ))}
        </div>
      </Frame>
      {heat ? (
        <Frame
          title="Is it always the same rank or host?"
          good="Good: no row stands out. A dark row is a slow rank, a block of rows a slow host, a column one slow step."
          note={`${heat.phase}: seconds over (red) or under (blue) the step's median`}
          answer={answer}
          table={() => ({
            caption: "Seconds over the step's median",
            columns: ["rank", ...heat.steps.slice(0, 30).map((step) => `step ${step}`)],
            rows: heat.ranks.map((rank, n) => [rank, ...(heat.values[n] ?? []).slice(0, 30)]),
          })}
        >
          <HeatMap {...heat} hosts={phases.find(({ phase }) => phase === heat.phase)} />
        </Frame>
      ) : null}
    </>
  );
}

function Strip({ phase, ranks, median_s, over_s, worst, shown }: Phase & { shown: boolean }): JSX.Element {
  const known = over_s.filter((value): value is number => value !== null);
  const [low, high] = [Math.min(0, ...known), Math.max(median_s * 0.05, ...known)];
  const x = (value: number): number => 10 + ((value - low) / (high - low || 1)) * (DOTS - 20);
  const slow = worst.filter(({ over_s: over }) => over > 0).slice(0, 5);
  const named = new Set(slow.map(({ rank }) => rank));
  // "update_actor (actor)", where several roles work in the phase.
  const color = phaseVar(phase.replace(/ \(.*/, ""));
  // One path for all dots: a thousand ranks are still one element.
  const dots = over_s
    .map((value, n) => (value === null || named.has(ranks[n]!) ? "" : `M${x(value).toFixed(1)} ${(14 + (n % 3) * 3).toFixed(0)}h.01`))
    .join("");
  return (
    <div class="strip">
      <div class="strip-name">
        <button type="button" class="quiet" title="Show it by step below" aria-pressed={shown} onClick={() => adjust({ phase })}>
          {phase}
        </button>
        <span class="muted">median {seconds(median_s)}</span>
      </div>
      <svg
        viewBox={`0 0 ${DOTS} 34`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${phase}: ${ranks.length} ranks; slowest ${worst[0] ? `rank ${worst[0].rank}, ${seconds(worst[0].over_s)} over the median` : "not known"}.`}
      >
        <line x1={x(0)} x2={x(0)} y1="2" y2="32" class="strip-zero" />
        <path d={dots} class="dots" style={{ stroke: color }} />
        <path d={slow.map(({ over_s: over }) => `M${x(over).toFixed(1)} 17h.01`).join("")} class="dots worst" style={{ stroke: color }} />
      </svg>
      <div class="strip-worst">
        {slow.length ? (
          slow.map(({ rank, host, over_s: over, steps }) => (
            <button
              key={rank}
              type="button"
              title={`${host ?? "host not told"}; slowest in ${steps} steps. Click for its row.`}
              onClick={() => adjust({ lanes: `rank:${rank}` })}
            >
              rank {rank} <b>+{seconds(over, 2)}</b>
            </button>
          ))
        ) : (
          <span class="muted">nobody stands out</span>
        )}
      </div>
      <span class="strip-axis muted">
        {low < 0 ? `${seconds(low, 2)} to ` : "0 to "}+{seconds(high, 2)}
      </span>
    </div>
  );
}

function HeatMap({ phase, steps, ranks, values, hosts }: Heat & { hosts: Phase | undefined }): JSX.Element {
  const [at, setAt] = useState<{ row: number; column: number } | null>(null);
  const [width, setWidth] = useState(1);
  const row = ranks.length <= 16 ? 16 : ranks.length <= 64 ? 8 : ranks.length <= 256 ? 3 : 1;
  const most = useMemo(
    () => values.reduce((max, line) => line.reduce<number>((m, value) => Math.max(m, Math.abs(value ?? 0)), max), 0) || 1,
    [values],
  );
  const cells = useMemo(
    () => Uint8Array.from(ranks.flatMap((_, n) => steps.map((_, m) => levelOf(values[n]?.[m] ?? null, most)))),
    [values, most],
  );
  const palette = diverging.value;
  const paint = useCallback(
    (surface: Surface) =>
      surface.matrix(cells, steps.length, ranks.length, palette, { x: 0, y: 0, width: surface.width, height: surface.height }),
    [cells, palette],
  );
  const hostOf = (n: number): string | null => hosts?.hosts[hosts.ranks.indexOf(ranks[n]!)] ?? null;
  const value = at ? (values[at.row]?.[at.column] ?? null) : null;
  const said = at
    ? `rank ${ranks[at.row]}${hostOf(at.row) ? ` on ${hostOf(at.row)}` : ""}, step ${steps[at.column]}: ${value === null ? "not told" : `${seconds(Math.abs(value))} ${value < 0 ? "under" : "over"} the median`}`
    : "";
  const move = (down: number, right: number): void =>
    setAt({
      row: Math.min(ranks.length - 1, Math.max(0, (at?.row ?? 0) + down)),
      column: Math.min(steps.length - 1, Math.max(0, (at?.column ?? 0) + right)),
    });
  return (
    <div class="heat lanes">
      <div class="lane-labels" style={{ marginTop: 0 }}>
        {ranks.map((rank, n) =>
          n % Math.max(1, Math.ceil(16 / row)) ? null : (
            <button
              key={rank}
              type="button"
              title={hostOf(n) ?? "host not told"}
              style={{ top: n * row }}
              onClick={() => adjust({ lanes: `rank:${rank}` })}
            >
              rank {rank}
            </button>
          ),
        )}
      </div>
      <Canvas
        label={`Heatmap of ${phase}: ${ranks.length} ranks by ${steps.length} steps.`}
        keys="Heatmap of ranks by steps. Arrows move the cursor, Enter shows the rank's row."
        height={row * ranks.length}
        paint={paint}
        width={(w) => setWidth(w || 1)}
        said={said}
        at={at && { x: ((at.column + 0.5) / steps.length) * width, y: at.row * row }}
        onPoint={(point) =>
          setAt(
            point && {
              row: Math.min(ranks.length - 1, Math.max(0, Math.floor(point.y / row))),
              column: Math.min(steps.length - 1, Math.max(0, Math.floor((point.x / width) * steps.length))),
            },
          )
        }
        onClick={() => at && adjust({ lanes: `rank:${ranks[at.row]}` })}
        onKey={(event) => {
          const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
          if (by) move(by[0]!, by[1]!);
          else if (event.key === "Enter" && at) adjust({ lanes: `rank:${ranks[at.row]}` });
          else return false;
          return true;
        }}
      />
      <span />
      <div class="heat-scale">
        <span>step {steps[0]}</span>
        <span class="scale">
          −{seconds(most, 2)} <i class="diverging" aria-hidden="true" /> +{seconds(most, 2)}; the middle is the median; blank is not told
        </span>
        <span>step {steps[steps.length - 1]}</span>
      </div>
    </div>
  );
}
