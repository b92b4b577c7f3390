// The shell: what is open, which run, how fresh the data are; views below it.
import { Component, render, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./pixels";
import "uplot/dist/uPlot.min.css";
import "./styles.css";
import type { Overview, Run } from "./api";
import { isReport, useAnswer } from "./client";
import { ago, clock, date } from "./format";
import { CHART_KEYS, helpOpen, PAGE_KEYS, shortcuts, startKeys, useKey } from "./keys";
import { connection, now, startLive } from "./live";
import { adjust, go, linkTo, route, setTheme, steps, theme } from "./state";
import { View as Batch } from "./views/batch";
import { View as Compare } from "./views/compare";
import { View as Curves } from "./views/curves";
import { View as Engine } from "./views/engine";
import { View as Guide } from "./views/guide";
import { View as Hardware } from "./views/hardware";
import { View as OverviewView } from "./views/overview";
import { View as Pipeline } from "./views/pipeline";
import { View as Rollouts } from "./views/rollouts";
import { View as Runs } from "./views/runs";
import { View as Timeline } from "./views/timeline";
import { View as Trace } from "./views/trace";

interface Place {
  title: string;
  view: ComponentType<{ run: string }>;
  /** The path below a run that it can't do without: a report shows the views whose answers it has. */
  needs: string;
  hidden?: boolean;
}

const PLACES: Record<string, Place> = {
  overview: { title: "Overview", view: OverviewView, needs: "" },
  curves: { title: "Curves", view: Curves, needs: "/keys" },
  timeline: { title: "Timeline", view: Timeline, needs: "/timeline" },
  batch: { title: "Batch", view: Batch, needs: "/batch" },
  rollouts: { title: "Rollouts", view: Rollouts, needs: "/trajectories" },
  trace: { title: "Trace", view: Trace, needs: "/trace", hidden: true },
  engine: { title: "Engine", view: Engine, needs: "/engine" },
  hardware: { title: "Hardware", view: Hardware, needs: "/hardware" },
  pipeline: { title: "Pipeline", view: Pipeline, needs: "/pipeline" },
  compare: { title: "Compare", view: Compare, needs: "/config" },
  guide: { title: "Guide", view: Guide, needs: "", hidden: true },
};

const reported = Object.keys(window.__answers ?? {});
const offered = (place: Place, run: string): boolean =>
  !isReport || reported.some((url) => url.split("?")[0]?.startsWith(`/api/runs/${encodeURIComponent(run)}${place.needs}`));

function Nav({ run }: { run: string }) {
  const current = route.value.view;
  return (
    <nav aria-label="Views">
      {Object.entries(PLACES).map(([name, place]) =>
        (place.hidden && name !== current) || !offered(place, run) ? null : (
          <a key={name} href={linkTo(name, run)} aria-current={name === current ? "page" : undefined}>
            {place.title}
          </a>
        ),
      )}
    </nav>
  );
}

const nameOf = (run: Run): string => run.experiment ?? run.id;

function RunPicker({ run }: { run: string }) {
  const all = useAnswer<{ runs: Run[] }>("/api/runs").value?.runs ?? [];
  const shown = all.slice(0, 100);
  const known = shown.some((one) => one.id === run);
  return (
    <select
      aria-label="Run"
      class="picker"
      value={run}
      onChange={(event) => go(route.peek().view, { steps: null, times: null }, event.currentTarget.value)}
    >
      {!known && <option value={run}>{nameOf(all.find((one) => one.id === run) ?? ({ id: run, experiment: null } as Run))}</option>}
      {shown.map((one) => (
        <option key={one.id} value={one.id}>
          {nameOf(one)} · {date(one.started)} · {one.status}
        </option>
      ))}
    </select>
  );
}

function Fresh({ run }: { run: string }) {
  const { value } = useAnswer<Overview>(`/api/runs/${encodeURIComponent(run)}`);
  const updated = value?.run.updated;
  const over = value !== undefined && value.run.status !== "running";
  const late = !over && updated !== undefined && now.value - updated > 60_000;
  return (
    <span class={late ? "fresh late" : "fresh"}>
      {value && (
        <>
          {over ? `${value.run.status} · ` : ""}Data up to {over ? date(updated) : clock(updated)}
          {!isReport && !over && <span class="num"> ({ago(updated, now.value)})</span>}
        </>
      )}
      {connection.value === "lost" && <strong class="lost"> ▲ backend not reached</strong>}
    </span>
  );
}

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  const rows = (title: string, all: readonly { keys: string; does: string }[]) => (
    <>
      <h3>{title}</h3>
      <dl>
        {all.map((one) => (
          <div key={one.keys}>
            <dt>{one.keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt>
            <dd>{one.does}</dd>
          </div>
        ))}
      </dl>
    </>
  );
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={() => (helpOpen.value = false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      {rows("Pictures", CHART_KEYS)}
      {rows("Page", PAGE_KEYS)}
      {shortcuts.value.length > 0 && rows("This view", shortcuts.value)}
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

class Guard extends Component<{ children: ComponentChildren }, { problem: Error | null }> {
  override state = { problem: null as Error | null };
  static override getDerivedStateFromError(problem: Error) {
    return { problem };
  }
  render() {
    const { problem } = this.state;
    if (!problem) return this.props.children;
    return (
      <p class="failed" role="alert">
        This view failed: {problem.message}{" "}
        <button type="button" onClick={() => this.setState({ problem: null })}>
          Try again
        </button>
      </p>
    );
  }
}

/** `[` and `]` move a chosen range of steps by its own length. */
function stepBy(direction: number): void {
  const range = steps.peek();
  if (!range) return;
  const length = Math.floor(range[1]) - Math.ceil(range[0]) + 1;
  const from = Math.max(0, range[0] + direction * length);
  adjust({ steps: `${from}-${from + range[1] - range[0]}`, times: null });
}

function Page() {
  const { view, run } = route.value;
  const place = PLACES[view];
  useKey("[", null, () => stepBy(-1));
  useKey("]", null, () => stepBy(1));
  useKey("Escape", null, () => {
    if (view !== "runs" && document.activeElement instanceof HTMLElement) document.activeElement.blur();
  });
  const id = run ?? "";
  useEffect(() => {
    document.title = place && run ? `${place.title} · ${run} · verl-otel` : "Runs · verl-otel";
  }, [view, run]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        To the content
      </a>
      <header class="topbar">
        {isReport ? <strong>verl-otel report</strong> : <a class="home" href={linkTo("runs", null)} aria-current={place ? undefined : "page"}>Runs</a>}
        {place && run && <RunPicker run={run} />}
        {place && run ? <Nav run={run} /> : <span class="grow" />}
        {place && run && <Fresh run={run} />}
        <button type="button" class="quiet" onClick={() => setTheme(theme.value === "dark" ? "light" : "dark")} aria-label={`Switch to the ${theme.value === "dark" ? "light" : "dark"} theme`}>
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" class="quiet" onClick={() => (helpOpen.value = true)} aria-label="Keys (?)">
          ?
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <Guard key={`${view}/${run}`}>{place && run ? <place.view run={id} /> : <Runs run="" />}</Guard>
      </main>
      <Help />
    </>
  );
}

function start(): void {
  const root = document.getElementById("page");
  if (!root) return;
  startKeys();
  startLive();
  const only = reported.map((url) => /^\/api\/runs\/([^/?]+)/.exec(url)?.[1]).find((one) => one !== undefined);
  if (isReport && only && !route.peek().run) go("overview", {}, decodeURIComponent(only));
  render(<Page />, root);
}

start();
