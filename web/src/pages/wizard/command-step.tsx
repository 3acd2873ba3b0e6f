// What to run: the checks first, then the installation with the tool of one's choice.

import { useSession } from "../../app/session";
import { CopyBlock } from "../../ui/copy";
import { Note } from "../../ui/page";
import { Tabs } from "../../ui/tabs";
import { type Draft, installChoice } from "./draft";
import { cliCommand, helmCommand, preflightCommand, terraformText } from "./install-command";

const tools = ["helm", "terraform", "slipway"] as const;

export interface CommandStepProps {
  draft: Draft;
  /** Everything that the commands need is right. */
  isReady: boolean;
  change: (part: Partial<Draft>) => void;
}

export function CommandStep({ draft, isReady, change }: CommandStepProps) {
  const { accountID } = useSession();
  if (!isReady) {
    return (
      <p className="muted">The commands are shown when the name is available and the fields above are complete.</p>
    );
  }
  const choice = installChoice(draft, window.location.origin, accountID);
  return (
    <div className="stack">
      {window.location.protocol === "http:" && (
        <Note tone="warn">
          The platform is at {window.location.origin}: other clusters may not reach it, and the connection is not
          encrypted. The commands allow that, for a trial.
        </Note>
      )}
      <h3>Check the cluster first</h3>
      <p className="muted">
        It checks the cluster, the controller, DNS, certificates and your account, changes nothing, and reports what to
        do.
      </p>
      <CopyBlock label="Command that checks the cluster" text={preflightCommand(choice).trimEnd()} />
      <h3>Install the runtime</h3>
      <Tabs
        label="Installation tool"
        selected={tools.find((tool) => tool === draft.tool) ?? "helm"}
        onSelect={(tool) => change({ tool })}
        tabs={[
          {
            id: "helm",
            label: "Helm",
            content: <CopyBlock label="Commands for Helm" text={helmCommand(choice).trimEnd()} />,
          },
          {
            id: "terraform",
            label: "Terraform",
            content: <CopyBlock label="Resource for Terraform" text={terraformText(choice).trimEnd()} />,
          },
          {
            id: "slipway",
            label: "Slipway",
            content: (
              <div className="stack">
                <CopyBlock label="Commands for Slipway" text={cliCommand(choice).trimEnd()} />
                <p className="muted">
                  It creates the key, checks the cluster, shows what it creates, and waits until the runtime is online.
                </p>
              </div>
            ),
          },
        ]}
      />
    </div>
  );
}
