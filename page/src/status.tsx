// A run's status as shape and word: colour alone tells nobody anything.
import type { Status } from "./api";

const SHAPES: Record<Status, string> = { running: "●", finished: "✓", failed: "✕", interrupted: "■", vanished: "◌" };
const HELP: Record<Status, string> = {
  running: "It still sends data.",
  finished: "It ended orderly.",
  failed: "It ended with an error.",
  interrupted: "Somebody stopped it (a signal).",
  vanished: "It stopped sending without an end: killed, or its network is gone.",
};

export function StatusMark({ status }: { status: Status }) {
  return (
    <span class={`status is-${status}`} title={HELP[status]}>
      <span aria-hidden="true">{SHAPES[status]}</span> {status}
    </span>
  );
}
