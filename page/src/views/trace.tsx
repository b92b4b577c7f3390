// One trace: a step's, a trajectory's. What bounds it, what failed in it, and what each span says.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Steps, Trace } from "../api";
import { useAnswer } from "../api";
import { Frame } from "../chart/frame";
import { clamp, since, type Range } from "../chart/range";
import { date, seconds } from "../format";
import { adjust, linkTo, param } from "../state";
import { keyOf, moved } from "./timeline/keys";
import { above, foldedAtFirst, rows as rowsOf, search, tree, type Node } from "./trace/layout";
import { StepFiles } from "./trace/step-files";
import { Overview } from "./trace/overview";
import { Linked, Panel } from "./trace/panel";
import { Waterfall } from "./trace/waterfall";
import "./views.css";

export function View({ run }: { run: string }): JSX.Element {
  const id = param("trace");
  return id ? <One run={run} id={id} key={id} /> : <Choose run={run} />;
}

function One({ run, id }: { run: string; id: string }): JSX.Element {
  const skew = param("skew") === "off" ? "off" : "on";
  const everyRank = param("ranks") === "all";
  const answer = useAnswer<Trace>(`/api/runs/${encodeURIComponent(run)}/trace/${id}`, { skew, fold: everyRank ? "off" : "on" });
  const trace = answer.value;
  const step = trace ? stepOf(trace) : null;
  const roots = useMemo(() => (trace ? tree(trace) : []), [trace]);
  const all = useMemo(() => rowsOf(roots, new Set()), [roots]);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [sized, setSized] = useState(-1);
  // A growing trace keeps what was folded by hand.
  useEffect(() => {
    if (trace && sized < 0) {
      setFolded(foldedAtFirst(roots, all.length));
      setSized(all.length);
    }
  }, [trace]);
  const selected = param("span") || null;
  const node = useMemo(() => all.find(({ span }) => span.span === selected) ?? null, [all, selected]);
  const text = param("find");
  const found = useMemo(() => search(roots, text), [roots, text]);
  const foundIds = useMemo(() => new Set(found.map(({ span }) => span.span)), [found]);
  const rows = useMemo(() => rowsOf(roots, folded), [roots, folded]);
  const bounds: Range = trace && trace.end > trace.start ? [trace.start, trace.end] : [0, 1];
  const chosen = /^([\d.]+)-([\d.]+)$/.exec(param("part"));
  const view = clamp(chosen ? [bounds[0] + Number(chosen[1]), bounds[0] + Number(chosen[2])] : bounds, bounds);

  const show = (next: Range): void => {
    const fitted = clamp(next, bounds);
    const whole = fitted[0] <= bounds[0] && fitted[1] >= bounds[1];
    adjust({
      part: whole || fitted[1] - fitted[0] < 0.01 ? null : `${(fitted[0] - bounds[0]).toFixed(2)}-${(fitted[1] - bounds[0]).toFixed(2)}`,
    });
  };
  const reveal = (next: Node): void => {
    const ids = above(next);
    if (ids.some((one) => folded.has(one))) setFolded(new Set([...folded].filter((one) => !ids.includes(one))));
    adjust({ span: next.span.span });
  };
  useEffect(() => {
    if (node && sized >= 0) reveal(node);
  }, [sized]);
  const nextOf = (nodes: readonly Node[], back: boolean): void => {
    if (!nodes.length) return;
    const place = new Map(all.map((one, index) => [one, index]));
    const here = node ? place.get(node)! : -1;
    const order = back ? [...nodes].reverse() : nodes;
    reveal(order.find((one) => (back ? place.get(one)! < here : place.get(one)! > here)) ?? order[0]!);
  };
  const onKey = (event: KeyboardEvent, at: Node | undefined): boolean => {
    const key = keyOf(event);
    if (key === "c" || key === "C")
      nextOf(
        all.filter(({ critical }) => critical),
        key === "C",
      );
    else if (key === "e" || key === "E")
      nextOf(
        all.filter(({ span }) => span.error),
        key === "E",
      );
    else if (key === "n" || key === "N") nextOf(found, key === "N");
    else if (key === "z" && at) show([at.span.start, Math.max(at.span.end, at.span.start + 0.02)]);
    else if (key === "Enter") document.querySelector<HTMLElement>(".span-panel")?.focus();
    else if (key === "Escape" && node) adjust({ span: null });
    else {
      const centre = at ? (at.span.start + at.span.end) / 2 : (view[0] + view[1]) / 2;
      const next = moved(key, view, centre, bounds);
      if (next) show(next);
      return next !== null;
    }
    return true;
  };
  const failed = all.filter(({ span }) => span.error);
  const critical = all.filter((one) => one.critical);
  return (
    <div class="view trace-view">
      <Frame
        title={trace ? `What bounds ${nameOf(trace)}?` : "What bounds it?"}
        good="Marked ◆ and underlined: the critical path. Only shortening that makes the whole shorter."
        note={
          trace
            ? `${seconds((trace.end - trace.start) / 1000)} from ${date(trace.start)}; ${trace.spans.length} ${trace.spans.length < trace.total ? `of ${trace.total} ` : ""}spans`
            : undefined
        }
        answer={answer}
        empty={
          trace && !trace.spans.length
            ? "This trace has no spans here: not sampled (VERL_OTEL_ROLLOUT_RATIO, _CAP), not arrived yet, or lost."
            : null
        }
        height={420}
        table={() => ({
          caption: "Spans",
          columns: ["span", "start (s)", "took (s)", "itself (s)", "role", "rank", "host", "critical", "failed"],
          rows: all.map(({ span, self_s, critical: on }) => [
            span.name,
            (span.start - bounds[0]) / 1000,
            (span.end - span.start) / 1000,
            self_s,
            span.role,
            span.rank,
            span.host,
            on ? "yes" : "",
            span.error ? (span.message ?? "yes") : "",
          ]),
        })}
      >
        {trace ? <Linked trace={trace} run={run} /> : null}
        {step === null ? null : <StepFiles run={run} step={step} />}
        <div class="toolbar">
          <label class="grow">
            Find
            <input
              type="search"
              data-search
              value={text}
              placeholder="name, attribute=value, rank:3, is:error, is:critical"
              onInput={(event) => adjust({ find: event.currentTarget.value || null })}
              onKeyDown={(event) => event.key === "Enter" && nextOf(found, event.shiftKey)}
            />
          </label>
          {text ? (
            <span class="muted" role="status">
              {found.length} found; Enter goes to the next
            </span>
          ) : null}
          <span class="button-row">
            <button type="button" disabled={!critical.length} onClick={() => nextOf(critical, false)}>
              ◆ next ({critical.length})
            </button>
            <button type="button" disabled={!failed.length} onClick={() => nextOf(failed, false)}>
              ✕ next ({failed.length})
            </button>
            <button type="button" onClick={() => setFolded(new Set())}>
              Unfold all
            </button>
            <button
              type="button"
              onClick={() => setFolded(new Set(all.filter((one) => one.children.length && one.depth > 0).map(({ span }) => span.span)))}
            >
              Fold all
            </button>
            <button type="button" onClick={() => show(bounds)}>
              Fit
            </button>
          </span>
          {everyRank || all.some(({ span }) => span.folded) ? (
            <label>
              <input
                type="checkbox"
                checked={everyRank}
                onChange={(event) => adjust({ ranks: event.currentTarget.checked ? "all" : null })}
              />
              every rank
            </label>
          ) : null}
          {trace?.skewed.length || skew === "off" ? (
            <label>
              <input
                type="checkbox"
                checked={skew === "on"}
                onChange={(event) => adjust({ skew: event.currentTarget.checked ? null : "off" })}
              />
              correct clocks{trace?.skewed.length ? ` (${trace.skewed.length} spans moved)` : ""}
            </label>
          ) : null}
        </div>
        {trace?.truncated ? <p class="hint">Cut: of {trace.total} spans the longest are here.</p> : null}
        {trace && selected && !node ? (
          <p class="hint">
            The span asked for is not among these:{" "}
            {everyRank ? (
              "it was cut"
            ) : (
              <a href={linkTo("trace", run, { trace: id, span: selected, ranks: "all" })}>its rank is folded, show every rank</a>
            )}
            , or it has not arrived.
          </p>
        ) : null}
        {trace ? <Overview rows={all} view={view} bounds={bounds} onView={show} /> : null}
        <div class={node ? "trace-split open" : "trace-split"}>
          <Waterfall
            rows={rows}
            folded={folded}
            found={foundIds}
            selected={selected}
            view={view}
            origin={bounds[0]}
            onSelect={reveal}
            onFold={(at, fold) => {
              const next = new Set(folded);
              if (fold) next.add(at.span.span);
              else next.delete(at.span.span);
              setFolded(next);
            }}
            onKey={onKey}
          />
          {node && trace ? <Panel node={node} trace={trace} onSelect={reveal} onClose={() => adjust({ span: null })} /> : null}
        </div>
      </Frame>
    </div>
  );
}

function stepOf({ spans }: Trace): number | null {
  const step = spans.find(({ parent }) => parent === null)?.attributes["verl.step"];
  return typeof step === "number" ? step : null;
}

function nameOf(trace: Trace): string {
  const step = stepOf(trace);
  return step === null ? trace.name : trace.name === "verl.step" ? `step ${step}` : `${trace.name} of step ${step}`;
}

/** Without a trace in the URL: the traces of the steps, slowest first. */
function Choose({ run }: { run: string }): JSX.Element {
  const answer = useAnswer<Steps>(`/api/runs/${encodeURIComponent(run)}/steps`, { bins: 400 });
  const steps = answer.value;
  const rows = (steps?.steps ?? [])
    .map((step, n) => ({ step, trace: steps!.trace[n] ?? null, total: steps!.total[n] ?? null, start: steps!.start[n] ?? null }))
    .filter(({ trace }) => trace !== null)
    .sort((a, b) => (b.total ?? 0) - (a.total ?? 0));
  const first = rows.reduce((least, { start }) => Math.min(least, start ?? Infinity), Infinity);
  return (
    <Frame
      title="Which step's trace?"
      good="The slowest first. A trajectory's trace opens from Rollouts, Batch and Timeline."
      answer={answer}
      empty={steps && !rows.length ? "No step has a trace yet: it comes with the first finished step." : null}
    >
      <ol class="trace-choice">
        {rows.slice(0, 100).map(({ step, trace, total, start }) => (
          <li key={step}>
            <a href={linkTo("trace", run, { trace: trace! })}>step {step}</a> <span class="num">{seconds(total)}</span>
            <span class="muted"> {start === null ? "" : `at ${since(start - first)}`}</span>
          </li>
        ))}
      </ol>
    </Frame>
  );
}
