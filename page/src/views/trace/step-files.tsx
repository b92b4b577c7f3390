// What verl's profilers wrote in one step, in the views of that step.
import type { JSX } from "preact";
import { useAnswer, type ProfileFile } from "../../api";
import { Files } from "../panels/profiles";

export function StepFiles({ run, step }: { run: string; step: number }): JSX.Element | null {
  const { value } = useAnswer<{ files: ProfileFile[] }>(`/api/runs/${encodeURIComponent(run)}/profiles`);
  const files = value?.files.filter((one) => one.step === step) ?? [];
  if (!files.length) return null;
  return (
    <details class="profiles">
      <summary>
        {files.length} {files.length === 1 ? "file" : "files"} of profilers
      </summary>
      <Files files={files} run={run} step={step} />
    </details>
  );
}
