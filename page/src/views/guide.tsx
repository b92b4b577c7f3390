// What each alert means, what to look at and what to do: docs/alerts.md, which is part of the bundle.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import text from "../../../docs/alerts.md";
import { adjust, param } from "../state";
import "./views.css";

const PREFIX = "guide-";

export function View(): JSX.Element {
  const at = param("at");
  useEffect(() => {
    const heading = document.getElementById(PREFIX + at);
    heading?.scrollIntoView();
    heading?.focus({ preventScroll: true });
  }, [at]);
  // Its own links lead within it; the address is the view's.
  const follow = (event: MouseEvent): void => {
    const href = event.target instanceof Element ? event.target.closest("a")?.getAttribute("href") : null;
    if (!href?.startsWith("#")) return;
    event.preventDefault();
    adjust({ at: href.slice(1) });
  };
  return <article class="frame guide" onClick={follow} dangerouslySetInnerHTML={{ __html: text }} />;
}
