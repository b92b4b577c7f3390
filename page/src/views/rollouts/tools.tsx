// Tools and rewards by name: which fails, which drags.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useAnswer, type ToolRow } from "../../api";
import { Frame } from "../../chart/frame";
import { Windowed, type Column } from "../../chart/table";
import { count, seconds, share } from "../../format";
import { go, linkTo } from "../../state";

type Field = "calls" | "errors" | "p50_s" | "p95_s" | "max_s";

export function Tools({ run }: { run: string }): JSX.Element {
  const answer = useAnswer<{ rows: ToolRow[] }>(`/api/runs/${encodeURIComponent(run)}/tools`);
  const [by, setBy] = useState<Field>("p95_s");
  const rows = useMemo(() => {
    const worth = (row: ToolRow): number => (by === "errors" ? row.errors / Math.max(1, row.calls) : row[by]);
    return [...(answer.value?.rows ?? [])].sort((a, b) => worth(b) - worth(a));
  }, [answer.value, by]);
  const column = (title: string, field: Field): Column => ({
    title,
    number: true,
    width: "92px",
    sorted: by === field && "descending",
    onSort: () => setBy(field),
  });
  return (
    <Frame
      title="Which tool or reward fails or drags?"
      good="Good: no errors, and a p95 close to the median. One slow call holds up its whole trajectory."
      answer={answer}
      empty={
        answer.value && !rows.length
          ? "No tool or reward call has a span here: the agent loop calls none, or its trajectories are not sampled."
          : null
      }
    >
      <Windowed
        label="Tools and rewards"
        columns={[
          { title: "name", width: "minmax(160px, 1.5fr)" },
          { title: "kind", width: "72px" },
          column("calls", "calls"),
          column("failed", "errors"),
          column("p50", "p50_s"),
          column("p95", "p95_s"),
          column("longest", "max_s"),
          { title: "most frequent error", width: "minmax(160px, 2fr)" },
          { title: "example", width: "80px" },
        ]}
        count={rows.length}
        height={280}
        row={(index) => {
          const row = rows[index]!;
          const failed = row.errors / Math.max(1, row.calls);
          const at = example(row);
          return [
            row.name,
            row.kind,
            count(row.calls),
            <span class={row.errors ? "error-text" : ""}>
              {row.errors ? "✕ " : ""}
              {share(failed)}
            </span>,
            seconds(row.p50_s),
            seconds(row.p95_s),
            seconds(row.max_s),
            <span title={row.top_error ?? ""}>{row.top_error ?? "—"}</span>,
            at ? <a href={linkTo("trace", run, at)}>trace</a> : "—",
          ];
        }}
        onOpen={(index) => {
          const at = example(rows[index]!);
          if (at) go("trace", at);
        }}
      />
    </Frame>
  );
}

/** "trace" or "trace/span". */
function example({ example: text }: ToolRow): { trace: string; span: string | null } | null {
  if (!text) return null;
  const [trace = "", span = null] = text.split("/");
  return { trace, span };
}
