// Everything that a span says, as text that can be copied.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Trace } from "../../api";
import { since } from "../../chart/range";
import { clock, seconds } from "../../format";
import { linkTo } from "../../state";
import { shown, type Node } from "./layout";
import { whereOf } from "./names";

const CONTENT = /^gen_ai\.(input|output)\.messages$|^gen_ai\.tool\.call\.(arguments|result)$/;

export interface PanelProps {
  node: Node;
  trace: Trace;
  onSelect: (node: Node) => void;
  onClose: () => void;
}

export function Panel({ node, trace, onSelect, onClose }: PanelProps): JSX.Element {
  const { span, parent, children } = node;
  const names = Object.keys(span.attributes).sort();
  const facts: [string, string][] = [
    ["started", `${since(span.start - trace.start, 10)} into the trace, ${clock(span.start, true)}`],
    ["took", seconds((span.end - span.start) / 1000)],
    ["of that itself", seconds(node.self_s)],
    ["where", [whereOf(span), span.process].filter(Boolean).join(", ") || "—"],
    ["trace", trace.trace],
    ["span", span.span],
  ];
  if (node.moved_s !== null) facts.push(["clock moved by", seconds(node.moved_s)]);
  return (
    <aside class="span-panel" aria-label={`Attributes of ${span.name}`} tabIndex={-1}>
      <header>
        <h4>{span.name}</h4>
        <Copy
          text={JSON.stringify(
            { name: span.name, trace: trace.trace, span: span.span, attributes: span.attributes, events: span.events },
            null,
            2,
          )}
          what="all"
        />
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      {span.error ? <p class="failed">✕ {span.message ?? "It failed; no message was told."}</p> : null}
      <dl>
        {facts.map(([name, value]) => (
          <Fact key={name} name={name} value={value} />
        ))}
      </dl>
      <p class="panel-links">
        {parent ? (
          <button type="button" class="quiet" onClick={() => onSelect(parent)}>
            ↑ {parent.span.name}
          </button>
        ) : null}
        {children[0] ? (
          <button
            type="button"
            class="quiet"
            onClick={() => onSelect(children.reduce((a, b) => (b.span.end - b.span.start > a.span.end - a.span.start ? b : a)))}
          >
            ↓ longest child
          </button>
        ) : null}
      </p>
      <h5>Attributes</h5>
      {names.length ? (
        <dl>
          {names.map((name) => (
            <Fact key={name} name={name} value={shown(span.attributes[name])} long={CONTENT.test(name)} />
          ))}
        </dl>
      ) : (
        <p class="muted">It has none.</p>
      )}
      {span.events.length ? <h5>Events</h5> : null}
      {span.events.map((event) => (
        <details key={`${event.time}${event.name}`}>
          <summary>
            {since(event.time - trace.start, 10)} {event.name}
          </summary>
          <dl>
            {Object.keys(event.attributes)
              .sort()
              .map((name) => (
                <Fact key={name} name={name} value={shown(event.attributes[name])} />
              ))}
          </dl>
        </details>
      ))}
    </aside>
  );
}

function Fact({ name, value, long }: { name: string; value: string; long?: boolean }): JSX.Element {
  return (
    <div class={long ? "fact long" : "fact"}>
      <dt>{name}</dt>
      <dd>
        {long ? <pre>{value}</pre> : value}
        <Copy text={value} what={name} />
      </dd>
    </div>
  );
}

function Copy({ text, what }: { text: string; what: string }): JSX.Element | null {
  const [said, say] = useState("");
  // A page opened from a file, or over plain http from elsewhere, has no clipboard: text can be selected still.
  if (!navigator.clipboard) return null;
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => say("copied"),
      () => say("not allowed"),
    );
    window.setTimeout(() => say(""), 1500);
  };
  return (
    <button type="button" class="copy" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={copy}>
      {said || "copy"}
    </button>
  );
}

/** Links of the trace both ways: what it was made for, and what was made for it. */
export function Linked({ trace, run }: { trace: Trace; run: string }): JSX.Element {
  const FEW = 5;
  const step = trace.spans.find(({ parent }) => parent === null)?.attributes["verl.step"];
  const times = `${trace.start.toFixed(3)}-${trace.end.toFixed(3)}`;
  const side = (direction: "to" | "from", title: string): JSX.Element | null => {
    const links = trace.linked.filter((link) => link.direction === direction);
    if (!links.length) return null;
    return (
      <div class="linked">
        <span class="muted">{title}</span>
        {links.slice(0, FEW).map((link) => (
          <a key={link.trace + link.span} href={linkTo("trace", undefined, { trace: link.trace, span: link.span })}>
            {link.name || "not here"} <span class="muted">{link.trace.slice(0, 6)}</span>
          </a>
        ))}
        {links.length > FEW ? (
          <details>
            <summary>{links.length - FEW} more</summary>
            {links.slice(FEW, 300).map((link) => (
              <a key={link.trace + link.span} href={linkTo("trace", undefined, { trace: link.trace, span: link.span })}>
                {link.name} <span class="muted">{link.trace.slice(0, 6)}</span>
              </a>
            ))}
          </details>
        ) : null}
      </div>
    );
  };
  return (
    <>
      <div class="linked">
        <a href={linkTo("timeline", run, { times, steps: null })}>These seconds in the timeline</a>
        {typeof step === "number" ? <a href={linkTo("batch", run, { step })}>Batch of step {step}</a> : null}
        {typeof step === "number" ? <a href={linkTo("rollouts", run, { step })}>Rollouts of step {step}</a> : null}
      </div>
      {side("to", "links to")}
      {side("from", "linked from")}
    </>
  );
}
