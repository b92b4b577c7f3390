// What the backend says about new data: `revs` grows with each run's data, at most once a second.
import { computed, signal } from "@preact/signals";

declare global {
  interface Window {
    /** Answers that a report carries: URL without host -> answer. */
    __answers?: Record<string, unknown>;
  }
}

export const isReport = typeof window.__answers === "object";

export const revs = signal<Record<string, number>>({});
export const connection = signal<"report" | "connecting" | "live" | "lost">(isReport ? "report" : "connecting");
export const visible = signal(document.visibilityState !== "hidden");
/** Ticks each second while the page is seen, for "4 s ago". */
export const now = signal(Date.now());

/** Newest data of anything at all: what a list of runs waits for. */
export const anyRev = computed(() => Object.values(revs.value).reduce((sum, rev) => sum + rev, 0));

export function revOf(path: string): number {
  const run = /^\/api\/runs\/([^/?]+)/.exec(path)?.[1];
  return run === undefined ? anyRev.value : (revs.value[decodeURIComponent(run)] ?? 0);
}

let stream: EventSource | null = null;

/** A hidden tab holds no stream; what it missed comes with the first message after it is shown again. */
function follow(): void {
  if (isReport || !visible.value) {
    stream?.close();
    stream = null;
    return;
  }
  if (stream) return;
  stream = new EventSource("api/live");
  stream.addEventListener("open", () => (connection.value = "live"));
  stream.addEventListener("error", () => (connection.value = "lost"));
  stream.addEventListener("runs", (event: MessageEvent<string>) => {
    connection.value = "live";
    revs.value = { ...revs.value, ...(JSON.parse(event.data) as Record<string, number>) };
  });
}

export function startLive(): void {
  document.addEventListener("visibilitychange", () => {
    visible.value = document.visibilityState !== "hidden";
    follow();
  });
  window.setInterval(() => {
    if (visible.value) now.value = Date.now();
  }, 1000);
  follow();
}
