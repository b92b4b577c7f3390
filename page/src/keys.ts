// Keys of the whole page. A picture handles its own keys first; what it leaves comes here.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export interface Shortcut {
  keys: string;
  does: string;
}

/** What `?` shows: the keys of every picture, then those of the views that are open. */
export const CHART_KEYS: readonly Shortcut[] = [
  { keys: "Tab", does: "to the next picture or control" },
  { keys: "← →", does: "move the cursor (Shift: by ten)" },
  { keys: "+ −", does: "zoom" },
  { keys: "a d", does: "pan" },
  { keys: "f", does: "fit: everything again" },
  { keys: "Enter", does: "open what is under the cursor, or pin it" },
  { keys: "Esc", does: "leave: unpin, fit, close" },
];
export const PAGE_KEYS: readonly Shortcut[] = [
  { keys: "/", does: "search" },
  { keys: "[ ]", does: "the step before, the step after" },
  { keys: "?", does: "this help" },
];

export const helpOpen = signal(false);

interface Handler {
  shortcut: Shortcut | null;
  handle: (event: KeyboardEvent) => void;
}
const handlers = new Map<string, Handler[]>();
export const shortcuts = signal<readonly Shortcut[]>([]);

const refresh = (): void => {
  shortcuts.value = [...handlers.values()].flatMap((all) => all.at(-1)?.shortcut ?? []);
};

/** A key of a view while it is shown: `useKey("o", "sort by end", () => ...)`. The newest one of a key wins. */
export function useKey(key: string, does: string | null, handle: (event: KeyboardEvent) => void): void {
  useEffect(() => {
    const handler: Handler = { shortcut: does === null ? null : { keys: key, does }, handle };
    handlers.set(key, [...(handlers.get(key) ?? []), handler]);
    refresh();
    return () => {
      handlers.set(key, (handlers.get(key) ?? []).filter((one) => one !== handler));
      refresh();
    };
  });
}

const writes = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (writes(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if (helpOpen.value && event.key !== "?") return; // the dialog's own keys
    const handler = handlers.get(event.key)?.at(-1);
    if (handler) handler.handle(event);
    else if (event.key === "?") helpOpen.value = !helpOpen.value;
    else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
    else return;
    event.preventDefault();
  });
}
