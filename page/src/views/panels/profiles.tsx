// What verl's profilers wrote, by step.
import type { JSX } from "preact";
import { useAnswer, type ProfileFile } from "../../api";
import { Frame } from "../../chart/frame";
import { bytes } from "../../format";
import { linkTo } from "../../state";

/** By their paths, which are read where they were written: a page that hands out files would give them to everybody here. */
export function Files({ files, run, step }: { files: readonly ProfileFile[]; run: string; step: number | null }): JSX.Element {
  return (
    <ul>
      {files.map((one) => (
        <li key={one.path}>
          <span>{one.tool}</span>{" "}
          <span class="muted">
            {one.role === null ? "" : `${one.role}/${one.rank ?? "—"}`} {bytes(one.bytes)}
          </span>{" "}
          <code>{one.path}</code>
        </li>
      ))}
      {files.some(({ mergeable }) => mergeable) ? (
        <li class="muted">
          All ranks on one clock, for ui.perfetto.dev:{" "}
          <code>
            verl-otel export {run} --to perfetto --profiler{step === null ? "" : ` --step ${step}`}
          </code>
        </li>
      ) : null}
    </ul>
  );
}

export function Profiles({ run }: { run: string }): JSX.Element | null {
  const answer = useAnswer<{ files: ProfileFile[] }>(`/api/runs/${encodeURIComponent(run)}/profiles`);
  const files = answer.value?.files ?? [];
  const steps = [...new Set(files.map(({ step }) => step))].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  return (
    <Frame
      title="What did the profilers write?"
      note={files.length ? `${files.length} files, ${bytes(files.reduce((sum, one) => sum + one.bytes, 0))}` : undefined}
      answer={answer}
      empty={
        answer.value && !files.length
          ? "No profiler ran, or its files are on another machine. verl's global_profiler.steps chooses the steps to profile."
          : null
      }
      table={() => ({
        caption: "Profiler files",
        columns: ["step", "tool", "role", "rank", "bytes", "path"],
        rows: files.map((one) => [one.step, one.tool, one.role, one.rank, one.bytes, one.path]),
      })}
    >
      {steps.map((step) => (
        <details key={String(step)} class="profiles" open={steps.length <= 4}>
          <summary>
            {step === null ? "step not told" : `step ${step}`}{" "}
            <span class="muted">{files.filter((one) => one.step === step).length} files</span>
          </summary>
          {step === null ? null : (
            <p>
              <a href={linkTo("batch", run, { step })}>The batch of step {step}</a>
            </p>
          )}
          <Files files={files.filter((one) => one.step === step)} run={run} step={step} />
        </details>
      ))}
    </Frame>
  );
}
