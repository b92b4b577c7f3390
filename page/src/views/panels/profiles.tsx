// What verl's profilers wrote, by step.
import type { JSX } from "preact";
import { useAnswer, type ProfileFile } from "../../api";
import { Frame } from "../../chart/frame";
import { bytes } from "../../format";
import { linkTo } from "../../state";

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
          <ul>
            {step === null ? null : (
              <li>
                <a href={linkTo("batch", run, { step })}>The batch of step {step}</a>
              </li>
            )}
            {files
              .filter((one) => one.step === step)
              .map((one) => (
                <li key={one.path}>
                  <span>{one.tool}</span>{" "}
                  <span class="muted">
                    {one.role === null ? "" : `${one.role}/${one.rank ?? "—"}`} {bytes(one.bytes)}
                  </span>{" "}
                  <code>{one.path}</code>
                </li>
              ))}
          </ul>
        </details>
      ))}
    </Frame>
  );
}
