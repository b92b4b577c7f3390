// What differs between runs: settings and versions first, then whether their curves differ really.
import { useMemo } from "preact/hooks";
import type { Key, Run } from "../api";
import { isReport, useAnswer } from "../client";
import { AxisChoice, Segments } from "../chart/axis-choice";
import { Frame } from "../chart/frame";
import { pathOf, zoomOf } from "../curves";
import { date } from "../format";
import { adjust, listText, param, runs as otherRuns, selectRuns, smoothing, xAxis } from "../state";
import { StatusMark } from "../status";
import { Settings } from "./compare/settings";
import { Overlay } from "./compare/overlay";
import { cardsOf } from "./curves/families";

const MOST = 8;
/** Shown before anybody chooses: reward, safety, length, speed. */
const FIRST = ["critic/score", "actor/entropy", "actor/ppo_kl", "actor/grad_norm", "response_length", "perf/throughput", "train/loss"];

function Chosen({ ids, all }: { ids: readonly string[]; all: readonly Run[] }) {
  const others = ids.slice(1);
  const addable = all.filter((one) => !ids.includes(one.id)).slice(0, 300);
  return (
    <div class="tools">
      {ids.map((id, index) => {
        const run = all.find((one) => one.id === id);
        return (
          <span key={id} class="badge chosen-run" title={run ? `started ${date(run.started)}` : id}>
            <i class="swatch" style={{ "--of": `var(--run-${index})` }} aria-hidden="true" />
            <b>{run?.experiment ?? id}</b>
            {run && <StatusMark status={run.status} />}
            {index === 0 ? (
              <span class="muted">(the others are compared with it)</span>
            ) : (
              <button type="button" class="quiet small" aria-label={`Take ${id} away`} onClick={() => selectRuns(others.filter((one) => one !== id))}>
                ×
              </button>
            )}
          </span>
        );
      })}
      {!isReport && ids.length < MOST && (
        <select aria-label="Add a run" value="" onChange={(event) => event.currentTarget.value && selectRuns([...others, event.currentTarget.value])} style={{ maxWidth: "16em" }}>
          <option value="">+ add a run…</option>
          {addable.map((one) => (
            <option key={one.id} value={one.id}>
              {one.experiment ?? one.id} · {date(one.started)}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}

export function View({ run }: { run: string }) {
  const ids = [run, ...otherRuns.value.filter((one) => one !== run)].slice(0, MOST);
  const all = useAnswer<{ runs: Run[] }>("/api/runs").value?.runs ?? [];
  const keys = useAnswer<{ keys: Key[] }>(pathOf(run, "/keys"));
  const cards = useMemo(() => cardsOf(keys.value?.keys ?? []), [keys.value]);
  const wanted = param("keys") ? param("keys").split(",").map(decodeURIComponent) : null;
  const shown = wanted
    ? wanted.flatMap((name) => cards.find((card) => card.name === name) ?? [])
    : [...cards.filter((card) => FIRST.includes(card.name)), ...cards.filter((card) => card.name.startsWith("val-core/")).slice(0, 2)];
  const names = shown.map((card) => card.name);
  const choose = (next: readonly string[]): void => adjust({ keys: listText(next) });
  return (
    <>
      <Chosen ids={ids} all={all} />
      {ids.length < 2 ? (
        <Frame title="Compare" empty="Choose a second run above, or several in the list of runs." />
      ) : (
        <>
          <Settings runs={ids} names={ids.map((id) => all.find((one) => one.id === id)?.experiment ?? id)} />
          <div class="tools" style={{ marginTop: 12 }}>
            <h2>Do the runs differ really?</h2>
            <AxisChoice />
            <Segments
              label="Runs as"
              options={[["", "Each run"], ["spread", "Median, min to max"]]}
              value={param("as")}
              onChoose={(value) => adjust({ as: value })}
            />
            <label class="choice">
              Smoothing
              <input type="range" min="0" max="0.99" step="0.01" value={smoothing.value} onInput={(event) => adjust({ smooth: Number(event.currentTarget.value) || null })} />
              <span class="num">{smoothing.value || "off"}</span>
            </label>
            <select aria-label="Add a curve" value="" onChange={(event) => event.currentTarget.value && choose([...names, event.currentTarget.value])} style={{ maxWidth: "18em" }}>
              <option value="">+ add a curve…</option>
              {cards
                .filter((card) => !names.includes(card.name))
                .map((card) => (
                  <option key={card.name} value={card.name}>
                    {card.name}
                  </option>
                ))}
            </select>
          </div>
          <div class="two">
            {shown.map((card) => (
              <Overlay
                key={card.name}
                card={card}
                runs={ids}
                spread={param("as") === "spread"}
                zoom={xAxis.value === "step" ? zoomOf(undefined) : {}}
                onRemove={() => choose(names.filter((one) => one !== card.name))}
              />
            ))}
          </div>
        </>
      )}
    </>
  );
}
