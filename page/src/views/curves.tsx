// Every scalar that the run has logged, as a wall of small charts; only what is seen is read and drawn.
import { useMemo } from "preact/hooks";
import type { Key, Run, Steps } from "../api";
import { isReport, urlOf, useAnswer } from "../client";
import { AxisChoice, Segments } from "../chart/axis-choice";
import { Frame } from "../chart/frame";
import { pathOf, useMarks, zoomOf } from "../curves";
import { adjust, linkTo, param, pinned, runs as otherRuns, selectRuns, smoothing } from "../state";
import { Card } from "./curves/card";
import { cardsOf, groupOf, search, type CardKeys } from "./curves/families";
import { Wall } from "./curves/wall";

const OTHERS = 7;

function Toolbar({ run, shown, total }: { run: string; shown: number; total: number }) {
  const all = useAnswer<{ runs: Run[] }>("/api/runs").value?.runs ?? [];
  const others = otherRuns.value;
  const addable = all.filter((one) => one.id !== run && !others.includes(one.id)).slice(0, 200);
  return (
    <div class="tools">
      <input
        type="search"
        data-search
        value={param("q")}
        placeholder="Search keys (/): actor kl, /timing.*gen/"
        aria-label="Search keys"
        onInput={(event) => adjust({ q: event.currentTarget.value })}
        style={{ width: "22em" }}
      />
      <span class="muted num">{shown === total ? `${total} charts` : `${shown} of ${total} charts`}</span>
      <AxisChoice />
      <Segments label="y scale" options={[["", "Linear"], ["log", "Log"]]} value={param("y")} onChoose={(value) => adjust({ y: value })} />
      <label class="choice">
        Smoothing
        <input type="range" min="0" max="0.99" step="0.01" value={smoothing.value} onInput={(event) => adjust({ smooth: Number(event.currentTarget.value) || null })} />
        <span class="num" style={{ width: "2.6em" }}>{smoothing.value || "off"}</span>
      </label>
      {!isReport && others.length < OTHERS && (
        <select
          aria-label="Lay another run over this one"
          value=""
          onChange={(event) => event.currentTarget.value && selectRuns([...others, event.currentTarget.value])}
          style={{ maxWidth: "14em" }}
        >
          <option value="">+ another run…</option>
          {addable.map((one) => (
            <option key={one.id} value={one.id}>
              {one.experiment ?? one.id}
            </option>
          ))}
        </select>
      )}
      <span class="grow" />
      {others.length > 0 && <a href={linkTo("compare", run)}>Compare in full</a>}
    </div>
  );
}

/** The runs laid over each other, with their colours. */
function RunsShown({ run }: { run: string }) {
  const others = otherRuns.value.filter((one) => one !== run);
  if (others.length === 0) return null;
  return (
    <p class="tools">
      {[run, ...others].map((one, index) => (
        <span key={one} class="badge">
          <i class="swatch" style={{ "--of": `var(--run-${index % 8})` }} aria-hidden="true" />
          {one}
          {index > 0 && (
            <button type="button" class="quiet small" aria-label={`Take ${one} away`} onClick={() => selectRuns(others.filter((other) => other !== one))}>
              ×
            </button>
          )}
        </span>
      ))}
    </p>
  );
}

export function View({ run }: { run: string }) {
  const answer = useAnswer<{ keys: Key[] }>(pathOf(run, "/keys"));
  const steps = useAnswer<Steps>(pathOf(run, "/steps"), { bins: 400 }).value;
  const marks = useMarks(run);
  const keys = answer.value?.keys;
  const cards = useMemo(() => cardsOf(keys ?? []), [keys]);
  const query = param("q");
  const found = useMemo(() => search(cards, query), [cards, query]);
  const pins = pinned.value;
  const runs = [run, ...otherRuns.value.filter((one) => one !== run)].slice(0, OTHERS + 1);
  const groups = useMemo(() => {
    const pinnedCards = pins.flatMap((pin) => cards.find((one) => one.name === pin) ?? []);
    const all = new Map<string, CardKeys[]>(pinnedCards.length ? [["pinned", pinnedCards]] : []);
    for (const card of found) {
      const group = groupOf(card.name);
      all.set(group, [...(all.get(group) ?? []), card]);
    }
    return [...all].map(([title, of]) => ({ title, cards: of }));
  }, [found, pins, cards]);
  const zoom = zoomOf(steps);
  return (
    <>
      <Toolbar run={run} shown={found.length} total={cards.length} />
      <RunsShown run={run} />
      {!answer.value || cards.length === 0 || found.length === 0 ? (
        <Frame
          title="Curves"
          answer={answer}
          empty={
            cards.length === 0
              ? "Nothing has been logged yet: verl logs its scalars at the end of each step. `verl-otel doctor` says whether the run is observed."
              : `No key matches "${query}".`
          }
        />
      ) : (
        <Wall
          groups={groups}
          card={(card) => (
            <Card key={card.name} card={card} runs={runs} marks={marks} zoom={zoom} pinned={pins.includes(card.name)} csv={isReport ? null : urlOf(pathOf(run, "/curves.csv"), { key: card.keys.map((one) => one.key) }).slice(1)} />
          )}
        />
      )}
    </>
  );
}
