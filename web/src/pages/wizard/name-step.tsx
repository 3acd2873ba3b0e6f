// The name of the runtime, and where it goes.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { platform } from "../../api/transport";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { type Draft, labelProblem, nameProblem } from "./draft";

const patience = 300;

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), patience);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export interface NameCheck {
  problem: string;
  proposal: string;
  /** The platform reports that the name is available. */
  free: boolean;
}

/** useNameCheck checks with the platform whether a name is available. */
export function useNameCheck(name: string): NameCheck {
  const settled = useSettled(name);
  const local = nameProblem(name);
  const asked = useQuery({
    queryKey: ["check-name", settled],
    queryFn: () => platform.runtimes.checkName({ name: settled }),
    enabled: local === "" && settled === name,
  });
  if (local !== "") return { problem: local, proposal: "", free: false };
  const answer = settled === name ? asked.data : undefined;
  if (!answer) return { problem: "", proposal: "", free: false };
  return {
    problem: answer.free ? "" : answer.reason || "Another runtime has this name.",
    proposal: answer.free ? "" : answer.proposal,
    free: answer.free,
  };
}

export interface NameStepProps {
  draft: Draft;
  check: NameCheck;
  change: (part: Partial<Draft>) => void;
}

export function NameStep({ draft, check, change }: NameStepProps) {
  const namespace = labelProblem("namespace", draft.namespace);
  const release = labelProblem("release", draft.release);
  return (
    <div className="stack">
      <div className="fields-2">
        <TextField
          label="Runtime name"
          value={draft.name}
          onChange={(name) => change({ name: name.trim() })}
          autoComplete="off"
          description="At most 38 lower-case letters, digits and dashes. It cannot be changed later."
          error={check.problem || undefined}
        />
        <TextField
          label="Namespace"
          value={draft.namespace}
          onChange={(value) => change({ namespace: value.trim() })}
          autoComplete="off"
          description="Created if it does not exist."
          error={namespace || undefined}
        />
      </div>
      <div className="row wizard-hint" role="status">
        {check.free && <span className="tone-good">The name is available.</span>}
        {check.proposal && (
          <Button small onPress={() => change({ name: check.proposal })}>
            {`Use ${check.proposal}`}
          </Button>
        )}
      </div>
      <details className="more">
        <summary>Helm release name</summary>
        <div className="details-body">
          <TextField
            label="Release"
            value={draft.release}
            onChange={(value) => change({ release: value.trim() })}
            autoComplete="off"
            error={release || undefined}
          />
        </div>
      </details>
    </div>
  );
}
