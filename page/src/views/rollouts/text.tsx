// What was said in a trajectory, where it was captured, and how far engine and trainer disagree on each token.
import type { JSX } from "preact";
import { useCallback, useState } from "preact/hooks";
import { useAnswer, type Messages } from "../../api";
import { Canvas } from "../../chart/canvas";
import type { Surface } from "../../chart/painter";
import { difference } from "../../colors";
import { number } from "../../format";
import { diverging, levelOf } from "../timeline/levels";

type Token = NonNullable<Messages["tokens"]>[number];

/** A log-prob difference of this and more has the strongest colour. */
const STRONG = 1;
const FEW = 3000;
/** Stronger colours would hide the text on them. */
const LEGIBLE = 0.55;

export function Text({ run, trace, span }: { run: string; trace: string; span: string }): JSX.Element {
  const { value, error, loading } = useAnswer<Messages>(`/api/runs/${encodeURIComponent(run)}/messages/${trace}/${span}`);
  if (error) return <p class="failed">{error.message}</p>;
  if (!value) return <p class="muted">{loading ? "Reading…" : ""}</p>;
  return (
    <div class="conversation">
      {value.messages.length ? (
        value.messages.map(({ role, text }, index) => (
          <article key={index} class="message" aria-label={role}>
            <h4>{role}</h4>
            <pre>{text}</pre>
          </article>
        ))
      ) : (
        <p class="muted">
          Text is not captured. <code>OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY</code> turns it on for the next run.
        </p>
      )}
      {value.tokens ? (
        <Tokens tokens={value.tokens} />
      ) : (
        <p class="muted">
          Differences of each token are not told. <code>VERL_OTEL_TOKEN_MISMATCH=true</code> turns them on, where verl compares log-probs (
          <code>calculate_log_probs</code>).
        </p>
      )}
    </div>
  );
}

function Tokens({ tokens }: { tokens: Token[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = all ? tokens : tokens.slice(0, FEW);
  const worst = tokens.reduce((most, { difference: one }) => Math.max(most, Math.abs(one ?? 0)), 0);
  const worded = tokens.some(({ text }) => text !== "");
  return (
    <section aria-label="Tokens by log-prob difference">
      <p class="token-key">
        <span class="muted">log p(trainer) − log p(engine):</span> −{STRONG} <i class="diverging" aria-hidden="true" /> +{STRONG};{" "}
        {worded ? "underlined from there; " : ""}largest {number(worst, 3)}
        {worded ? "" : `; ${tokens.length} tokens, whose text is not told`}
      </p>
      {worded ? (
        <p class="tokens">
          {shown.map(({ text, difference: one }, index) => (
            <span
              key={index}
              class={one !== null && Math.abs(one) >= STRONG ? "far" : ""}
              title={one === null ? "not told" : number(one, 4)}
              style={one === null ? {} : { background: difference(Math.max(-LEGIBLE, Math.min(LEGIBLE, (one / STRONG) * LEGIBLE))) }}
            >
              {text}
            </span>
          ))}
        </p>
      ) : (
        <TokenCells tokens={tokens} />
      )}
      {worded && tokens.length > shown.length ? (
        <button type="button" onClick={() => setAll(true)}>
          All {tokens.length} tokens
        </button>
      ) : null}
    </section>
  );
}

const [CELL, LINE] = [9, 14];

/** Tokens without text: a cell for each, in reading order. */
function TokenCells({ tokens }: { tokens: Token[] }): JSX.Element {
  const [width, setWidth] = useState(CELL);
  const [at, setAt] = useState<number | null>(null);
  const columns = Math.max(1, Math.floor(width / CELL));
  const rows = Math.ceil(tokens.length / columns);
  const palette = diverging.value;
  const paint = useCallback(
    (surface: Surface) => {
      const cells = new Uint8Array(columns * rows);
      tokens.forEach(({ difference: one }, index) => (cells[index] = levelOf(one, STRONG)));
      const area = { x: 0, y: 0, width: columns * CELL, height: rows * LINE };
      surface.matrix(cells, columns, rows, palette, area);
    },
    [tokens, columns, rows, palette],
  );
  const value = at === null ? null : (tokens[at]?.difference ?? null);
  return (
    <Canvas
      label={`${tokens.length} tokens by log-prob difference.`}
      keys="Tokens. Arrows go from one to the next."
      height={rows * LINE}
      paint={paint}
      width={(w) => setWidth(w || CELL)}
      said={at === null ? "" : `token ${at + 1}: ${value === null ? "not told" : number(value, 4)}`}
      at={at === null ? null : { x: (at % columns) * CELL, y: Math.floor(at / columns) * LINE }}
      onPoint={(point) => {
        const index = point && Math.floor(point.y / LINE) * columns + Math.floor(point.x / CELL);
        setAt(index !== null && index < tokens.length ? index : null);
      }}
      onKey={(event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
        if (by) setAt(Math.min(tokens.length - 1, Math.max(0, (at ?? 0) + by)));
        return by !== undefined;
      }}
    />
  );
}
