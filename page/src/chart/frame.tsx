// The frame of every picture: its question as title, what good looks like, and the states of its data.
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { isReport, type Answer } from "../client";
import { DataTable, type TableData } from "./table";
import { useLasting } from "./use";

export interface FrameProps {
  title: string;
  /** The question that the picture answers, where the title is not the question itself. */
  question?: string;
  /** What good looks like, in one sentence. */
  good?: string;
  /** What stands beside the title: the unit, a sum, "1,024 of 16,384". */
  note?: ComponentChildren;
  /** Why there is nothing to see and what to do; shown instead of the picture. */
  empty?: string | null | undefined;
  /** The answer behind the picture: shows waiting, dims what is old, offers a retry. */
  answer?: Pick<Answer<unknown>, "value" | "error" | "loading" | "stale" | "retry">;
  /** Buttons and choices at the right of the title. */
  actions?: ComponentChildren;
  /** The same content as a table, made when it is asked for. */
  table?: () => TableData;
  /** CSS pixels that the picture will take, so that nothing jumps when it comes. */
  height?: number;
  class?: string;
  children?: ComponentChildren;
}

export function Frame({ title, question, good, note, empty, answer, actions, table, height, children, ...rest }: FrameProps) {
  const [asTable, setAsTable] = useState(false);
  const id = useId();
  const waiting = useLasting(answer?.loading === true && answer.value === undefined);
  const dimmed = useLasting(answer?.stale === true);
  const failed = answer?.error;
  const shown = answer === undefined || answer.value !== undefined;
  return (
    <section class={`frame ${rest.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h3 id={id} title={question}>
          {title}
        </h3>
        {note !== undefined && note !== null && <span class="note">{note}</span>}
        <span class="grow" />
        {actions}
        {table && shown && !empty && (
          <button type="button" class="quiet small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
            {asTable ? "Picture" : "Table"}
          </button>
        )}
      </header>
      {good && <p class="good">{good}</p>}
      {failed && (
        <p class={isReport ? "empty" : "failed"} role="alert">
          <span>{failed.message}</span>{" "}
          {!isReport && (
            <button type="button" onClick={answer.retry}>
              Try again
            </button>
          )}
        </p>
      )}
      <div class={dimmed ? "body dimmed" : "body"} style={{ minHeight: empty || failed ? undefined : height }} aria-busy={answer?.loading === true}>
        {shown && empty ? <Empty text={empty} /> : null}
        {shown && !empty && (asTable && table ? <DataTable {...table()} /> : children)}
        {waiting && !failed && <p class="muted">Reading…</p>}
      </div>
    </section>
  );
}

export function Empty({ text }: { text: string }) {
  return <p class="empty">{text}</p>;
}
