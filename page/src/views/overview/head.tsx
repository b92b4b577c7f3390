// What comes before every picture: what the run is, what failed, what alarms, what is advised.
import type { Advice, Alert, Failure, Overview, Run } from "../../api";
import { ABSENT, ago, clock, count, date, number, seconds } from "../../format";
import { now } from "../../live";
import { linkTo } from "../../state";
import { StatusMark } from "../../status";

export function Facts({ run, health }: { run: Run; health: Overview["health"] }) {
  const end = run.ended ?? run.updated;
  const facts = [
    run.step === null ? "no step yet" : `step ${number(run.step)}${run.total_steps === null ? "" : ` of ${number(run.total_steps)}`}`,
    `${seconds((end - run.started) / 1000)} since ${date(run.started)}`,
    [run.algorithm, run.model, run.engine, run.trainer].filter(Boolean).join(", "),
    run.host ?? "",
    run.attempts > 1 ? `attempt ${run.attempts}` : "",
    run.demo ? "made data" : "",
  ].filter(Boolean);
  const missing = [
    health.lost > 0 ? `${count(health.lost)} lost` : "",
    health.cut > 0 ? `${count(health.cut)} cut` : "",
    health.sampled_out > 0 ? `${count(health.sampled_out)} not sampled` : "",
    health.late_s !== null && health.late_s > 30 ? `data ${seconds(health.late_s)} late` : "",
  ].filter(Boolean);
  return (
    <>
      <StatusMark status={run.status} />
      <span>{facts.join(" · ")}</span>
      {missing.length > 0 && (
        <a class="badge warning" href={linkTo("pipeline")} title="Numbers and traces below may be incomplete">
          ▲ {missing.join(", ")}
        </a>
      )}
    </>
  );
}

export function FailureCard({ failure, lastGood, run }: { failure: Failure; lastGood: number | null; run: string }) {
  const where = [
    failure.phase,
    failure.role === null ? "" : `${failure.role}${failure.rank === null ? "" : ` rank ${failure.rank}`}`,
    failure.host ? `on ${failure.host}` : "",
    failure.step === null ? "" : `in step ${failure.step}`,
  ].filter(Boolean);
  return (
    <section class="frame failure" aria-label="What failed first">
      <header>
        <h3>
          <span aria-hidden="true">✕ </span>What failed first: {failure.type}
        </h3>
        <span class="grow" />
        <span class="note">{date(failure.time)}:{clock(failure.time).slice(6)}</span>
      </header>
      {failure.message && <pre>{failure.message}</pre>}
      <p>
        {where.length ? `In ${where.join(", ").replace(/, in step/, " in step")}.` : "It isn't known where."} Last good step: {lastGood === null ? `${ABSENT} (none was logged)` : lastGood}.{" "}
        {failure.trace && (
          <a href={linkTo("trace", run, { trace: failure.trace, span: failure.span })}>Open its trace</a>
        )}
        {failure.trace && failure.step !== null && " · "}
        {failure.step !== null && <a href={linkTo("timeline", run, { steps: `${failure.step}-${failure.step + 1}` })}>See that step on the timeline</a>}
      </p>
    </section>
  );
}

/** Of the alerts whose root is found in what profilers and the precision debugger recorded. */
const DISAGREES = "VerlRolloutAndTrainerDisagree";

/** Alarms come before advice, and a critical one silences it: what is slow is then a symptom. */
export function Alerts({ alerts, advice, run }: { alerts: readonly Alert[]; advice: readonly Advice[]; run: string }) {
  const critical = alerts.some((one) => one.severity === "critical");
  const sorted = [...alerts].sort((a, b) => Number(b.severity === "critical") - Number(a.severity === "critical") || a.since - b.since);
  if (alerts.length === 0 && advice.length === 0) return null;
  return (
    <div class="alerts">
      {sorted.map((one) => (
        <p key={one.name} class={`alert ${one.severity}`} role="status">
          <strong>
            {one.severity === "critical" ? "✕ critical" : "▲ warning"}
          </strong>{" "}
          {one.summary} <span class="muted">({one.name}, since {ago(one.since, now.value).replace(" ago", "")})</span>{" "}
          <a href={linkTo("guide", run, { at: one.runbook.split("#")[1] })}>What to do</a>
          {one.name.startsWith(DISAGREES) && (
            <>
              {" · "}
              <a href={linkTo("hardware", run)}>What profilers and dumps wrote</a>
            </>
          )}
        </p>
      ))}
      {!critical &&
        advice.map((one) => (
          <p key={one.key} class="alert advice">
            <strong>{one.title}.</strong> {one.text}
          </p>
        ))}
    </div>
  );
}
