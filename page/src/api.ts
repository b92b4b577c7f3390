// What the backend answers. `null` is absent: shown as "—", never as 0. Times are ms since the epoch, durations seconds.

export type Status = "running" | "finished" | "failed" | "interrupted" | "vanished";

/** GET /api/runs -> { runs: Run[] }, newest first. */
export interface Run {
  id: string;
  project: string | null;
  experiment: string | null;
  status: Status;
  step: number | null; // last logged
  total_steps: number | null; // from the configuration
  started: number;
  updated: number; // newest data
  ended: number | null;
  host: string | null;
  attempts: number;
  algorithm: string | null;
  model: string | null;
  engine: string | null;
  trainer: string | null;
  reward: { key: string; points: [number, number][] } | null; // at most 60 points (step, value)
  bytes: number; // of its database
  demo: boolean; // made data
  rev: number;
}

/** GET /api/runs/{id} */
export interface Overview {
  run: Run;
  phases_open: OpenPhase[]; // what is open now
  progress: Progress | null; // of the rollout
  failure: Failure | null; // of a failed run: the earliest error
  alerts: Alert[]; // firing now, by Prometheus' rules where they can be computed
  advice: Advice[];
  health: { lost: number; late_s: number | null; cut: number; sampled_out: number };
  last_good_step: number | null;
  rev: number;
}
export interface OpenPhase { name: string; role: string | null; rank: number | null; open_s: number; median_s: number | null; p95_s: number | null; stuck: boolean }
export interface Progress { validation: boolean; expected: number | null; pending: number | null; running: number; done: number; failed: number; rate: number | null; left_s: number | null; oldest_s: number | null; waits_for: string | null }
export interface Failure { time: number; type: string; message: string | null; phase: string | null; role: string | null; rank: number | null; host: string | null; step: number | null; trace: string | null; span: string | null }
export interface Alert { name: string; severity: "warning" | "critical"; summary: string; since: number; runbook: string }
export interface Advice { title: string; text: string; key: string }

/** GET /api/runs/{id}/config -> Configuration; compare: the page makes the difference. */
export interface Configuration { config: Record<string, unknown>; versions: Record<string, string>; info: Record<string, string> }

/** GET /api/runs/{id}/keys -> { keys: Key[] }: verl's own keys. `family` groups mean/max/min: "critic/score" of "critic/score/mean". */
export interface Key { key: string; family: string; statistic: string | null; unit: string; points: number; nonfinite: number; first_step: number; last_step: number }

/** GET /api/runs/{id}/curves?key=..&key=..&x=step|time|elapsed&from=&to=&width=1200: M4 per column: first, last, min and max with their own x. */
export interface Curves { x: "step" | "time" | "elapsed"; curves: Curve[]; rev: number }
export interface Curve { key: string; unit: string; xs: number[]; ys: (number | null)[]; reduced: boolean; points: number; nonfinite: [number, string][] } // nonfinite: (x, "NaN" | "+Inf" | "-Inf")
/** GET /api/runs/{id}/curves.csv?key=.. : step,time,key.. exactly as logged. */

/** GET /api/runs/{id}/marks -> { marks: Mark[] }: events on the curves. */
export interface Mark { time: number; step: number | null; kind: "checkpoint" | "restart" | "nan" | "weights" | "stuck" | "profile" | "oom" | "error" | "end"; label: string }

/** GET /api/runs/{id}/steps?from=&to=&bins=400 -> Steps: seconds of each phase by step; `rest` is what no phase explains. */
export interface Steps { steps: number[]; width: number; phases: Record<string, (number | null)[]>; total: (number | null)[]; rest: (number | null)[]; start: (number | null)[]; end: (number | null)[]; trace: (string | null)[]; rev: number }

/** GET /api/runs/{id}/timeline?from=&to=&width=1200&rows=&filter=&order=&colour=weights: lanes by time (ms). `cells`: base64 of uint8[rows*width], index into `states`; 0 is nothing known. Below pixel scale `spans` instead. */
export interface Timeline {
  from: number; to: number; width: number;
  lanes: Lane[]; total_lanes: number;
  states: string[]; // e.g. ["", "idle", "gen", "update_actor", ...]
  cells: string | null; counts_max: number | null;
  spans: LaneSpan[] | null; // at most 20,000
  composition: { states: number[][] } | null; // above 64 lanes: share of lanes in each state for each column
  rev: number;
}
export interface Lane { lane: string; kind: "trainer" | "rank" | "replica" | "agent" | "other"; host: string | null; role: string | null; rank: number | null; replica: number | null; gap_s: number | null; idle: number | null; errors: number }
export interface LaneSpan { row: number; start: number; end: number; state: string; name: string; step: number | null; weights: number | null; error: boolean; trace: string; span: string }

/** GET /api/runs/{id}/stragglers?from=&to= (steps): per phase, seconds of each rank. heat[rank][step]: seconds over the step's median. */
export interface Stragglers { phases: { phase: string; ranks: number[]; hosts: (string | null)[]; median_s: number; over_s: (number | null)[]; worst: { rank: number; host: string | null; over_s: number; steps: number }[] }[]; heat: { phase: string; steps: number[]; ranks: number[]; values: (number | null)[][] } | null }

/** GET /api/runs/{id}/batch?step=&sort=end|start|seconds|reward|turns|staleness&limit=1024 : the trajectories that the step trained on, on the wall clock. */
export interface Batch { step: number; total: number; consumed: number | null; rows: BatchRow[] }
export interface BatchRow { trace: string; span: string; uid: string | null; session: number | null; start: number; end: number; reward: number | null; turns: number | null; tokens: number | null; staleness: number | null; outcome: string | null; parts: { kind: "queue" | "gate" | "model" | "tool" | "reward"; start: number; end: number; error: boolean }[] }

/** GET /api/runs/{id}/trajectories?step=&validation=&uid=&search=&sort=&desc=&limit=&offset= */
export interface Trajectories { total: number; rows: Trajectory[]; distributions: { reward: Histogram | null; tokens: Histogram | null; seconds: Histogram | null; turns: Histogram | null } }
export interface Trajectory { trace: string; span: string; name: string; step: number | null; validation: boolean; uid: string | null; session: number | null; start: number; seconds: number; outcome: string | null; reward: number | null; parts: Record<string, number>; prompt_tokens: number | null; response_tokens: number | null; turns: number | null; model_calls: number | null; tool_calls: number | null; stop_reason: string | null; weights_oldest: number | null; weights_newest: number | null; host: string | null }
export interface Histogram { bounds: number[]; counts: number[] }
/** GET /api/runs/{id}/groups?step= -> { groups: Group[] } */
export interface Group { uid: string; rewards: (number | null)[]; mean: number | null; spread: number | null; signal: "all right" | "all wrong" | "mixed" | "equal" | "unknown"; traces: string[] }
/** GET /api/runs/{id}/signal: groups by step. */
export interface Signal { steps: number[]; all_wrong: number[]; mixed: number[]; all_right: number[]; filtered: number[] }
/** GET /api/runs/{id}/messages/{trace}/{span} -> Messages: content, only where it was captured. */
export interface Messages { messages: { role: string; text: string }[]; tokens: { text: string; difference: number | null }[] | null }
/** GET /api/runs/{id}/tools -> { rows: ToolRow[] }: tools and rewards by name. */
export interface ToolRow { kind: "tool" | "reward"; name: string; calls: number; errors: number; p50_s: number; p95_s: number; max_s: number; top_error: string | null; example: string | null }

/** GET /api/runs/{id}/trace/{trace}?skew=on|off */
export interface Trace { trace: string; name: string; start: number; end: number; total: number; spans: TraceSpan[]; critical: string[]; skewed: { span: string; by_s: number }[]; truncated: boolean; linked: { trace: string; span: string; name: string; direction: "to" | "from" }[] }
export interface TraceSpan { span: string; parent: string | null; name: string; start: number; end: number; error: boolean; message: string | null; role: string | null; rank: number | null; host: string | null; process: string; depth: number; folded: number | null; attributes: Record<string, unknown>; events: { time: number; name: string; attributes: Record<string, unknown> }[] }

/** GET /api/runs/{id}/engine?from=&to=&width=, /hardware, /pipeline: panels of lines by time. Values that nobody told are null. */
export interface Panels { panels: Panel[]; rows: { title: string; columns: string[]; rows: (string | number | null)[][] }[]; rev: number }
export interface Panel { id: string; title: string; good: string; unit: string; x: number[]; lines: { name: string; ys: (number | null)[] }[]; threshold: number | null; why_empty: string | null }

/** GET /api/runs/{id}/profiles -> { files: ProfileFile[] } */
export interface ProfileFile { tool: string; path: string; step: number | null; rank: number | null; role: string | null; bytes: number; mergeable: boolean }

export { get, useAnswer, urlOf, isReport } from "./client";
export type { Answer, Parameters } from "./client";
