// What each alert means, what to look at and what to do: docs/alerts.md, which is part of the bundle.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import text from "../../../docs/alerts.md";
import { adjust, param } from "../state";
import "./views.css";

const PREFIX = "guide-";

function show(at: string): void {
  const heading = document.getElementById(PREFIX + at);
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView();
}

export function View(): JSX.Element {
  const at = param("at");
  useEffect(() => show(at), [at]);
  // Its own links lead within it; the address is the view's.
  const follow = (event: MouseEvent): void => {
    const href = event.target instanceof Element ? event.target.closest("a")?.getAttribute("href") : null;
    if (!href?.startsWith("#") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    adjust({ at: href.slice(1) });
    show(href.slice(1));
  };
  return <article class="frame guide" onClick={follow} dangerouslySetInnerHTML={{ __html: text }} />;
}
