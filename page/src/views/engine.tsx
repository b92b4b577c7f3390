// The engines: are requests served, and which replica is the worst?
import type { JSX } from "preact";
import { PanelsView } from "./panels/panels";
import "./views.css";

export function View({ run }: { run: string }): JSX.Element {
  return (
    <PanelsView
      run={run}
      part="engine"
      empty="No engine has told of anything yet. vLLM and SGLang are read once their server runs; docs/engines-and-hardware.md says what each needs."
    />
  );
}
