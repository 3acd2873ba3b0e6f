// The steps after an installation: what is left is done here, and what the runtime
// reports is shown as it comes.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useRuntimes } from "../../api/fleet";
import { CompletionStep, type Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import type { Integration } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime as client } from "../../api/runtime";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { Button, buttonClass } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { CheckIcon } from "../../ui/icons";
import { Note } from "../../ui/page";
import { toast, toastError } from "../../ui/toast";
import { integrationsKey } from "../settings/integrations-key";
import { RegisterDialog } from "../settings/register-dialog";
import { CredentialsDialog } from "./credentials";
import { stepTitle } from "./model";
import "./runtimes.css";

const steps = [CompletionStep.GIT_CREDENTIALS, CompletionStep.USER_TOKEN, CompletionStep.RUNTIME_APPLICATION] as const;
type Step = (typeof steps)[number];

const why: Record<Step, string> = {
  [CompletionStep.GIT_CREDENTIALS]: "The runtime uses them to read Git and to write the shared repository.",
  [CompletionStep.USER_TOKEN]:
    "With your own token, your changes in Git are committed and pushed as you. Without it, you are their author, and the runtime pushes them with its own token.",
  [CompletionStep.RUNTIME_APPLICATION]:
    "Git becomes the source of truth for the runtime too: its components, their health and their versions are shown here.",
};

export interface CompletionProps {
  runtime: Runtime;
  /** The page that a Git provider sends the browser back to, without /console. */
  back: string;
}

/** CompletionSteps does what is left of an installation. */
export function CompletionSteps({ runtime, back }: CompletionProps) {
  const { isAdmin, email, userID } = useSession();
  const [doing, setDoing] = useState<Step | null>(null);
  // Done here; the runtime reports it with its next sign of life.
  const [done, setDone] = useState<ReadonlySet<CompletionStep>>(new Set());
  const [busy, setBusy] = useState(false);
  const settings = useQuery({ queryKey: ["git-settings"], queryFn: () => platform.git.getGitSettings({}) });
  const hasGit = Boolean(settings.data?.settings?.provider);
  const integrations = useQuery({
    queryKey: integrationsKey(runtime.name),
    queryFn: () => client(runtime.name).integrations.listIntegrations({}),
    enabled: runtime.online,
  });
  const registered = (integrations.data?.integrations ?? []).some((one) =>
    one.users.some((user) => user.user === email || user.user === userID),
  );
  const isDone = (step: CompletionStep) =>
    done.has(step) || !runtime.pendingSteps.includes(step) || (step === CompletionStep.USER_TOKEN && registered);
  const finish = (step: CompletionStep) => setDone((before) => new Set([...before, step]));
  // What the runtime reported needs no memory here, and may be pending again one day.
  const reported = runtime.pendingSteps.join();
  useEffect(() => {
    const pending = reported === "" ? [] : reported.split(",").map(Number);
    setDone((before) => {
      const kept = [...before].filter((step) => pending.includes(step));
      return kept.length === before.size ? before : new Set(kept);
    });
  }, [reported]);

  const configure = async () => {
    setBusy(true);
    try {
      const answer = await client(runtime.name).runtime.configureAsApplication({});
      finish(CompletionStep.RUNTIME_APPLICATION);
      toast(`${runtime.name} is the Application ${answer.application} now.`);
    } catch (error) {
      toastError(error);
    } finally {
      setBusy(false);
    }
  };

  const action = (step: Step) => {
    if (isDone(step)) return null;
    const isOwn = step === CompletionStep.USER_TOKEN;
    if (!isOwn && !isAdmin) return <span className="muted">For admins</span>;
    if (step === CompletionStep.RUNTIME_APPLICATION) {
      const first = !isDone(CompletionStep.GIT_CREDENTIALS);
      return (
        <Button
          variant="primary"
          onPress={() => void configure()}
          isPending={busy}
          isDisabled={!runtime.online || first}
        >
          {busy ? "Configuring…" : "Configure as Application"}
        </Button>
      );
    }
    const open = () => {
      if (step === CompletionStep.USER_TOKEN) void integrations.refetch();
      setDoing(step);
    };
    return (
      <Button variant="primary" onPress={open} isDisabled={!runtime.online || !hasGit}>
        {step === CompletionStep.GIT_CREDENTIALS ? "Set credentials" : "Register your token"}
      </Button>
    );
  };

  const left = steps.filter((step) => !isDone(step)).length;
  return (
    <div className="stack">
      <p role="status" className={left === 0 ? undefined : "muted"}>
        {left === 0 ? "All steps completed." : `${steps.length - left} of ${steps.length} steps completed.`}
      </p>
      {settings.isSuccess && !hasGit && (
        <Note tone="warn">
          The account has no Git provider yet.{" "}
          {isAdmin ? (
            <Link to="/settings" search={{ section: "git" }}>
              Choose it in the settings.
            </Link>
          ) : (
            "An admin can choose it in the settings."
          )}
        </Note>
      )}
      <ol className="steps">
        {steps.map((step, at) => (
          <li key={step} className={isDone(step) ? "step done" : "step"} data-step={CompletionStep[step]}>
            <span className="step-mark" aria-hidden="true">
              {isDone(step) ? <CheckIcon /> : at + 1}
            </span>
            <div>
              <h3>
                {stepTitle(step)}
                <span className="visually-hidden">{isDone(step) ? ": done" : ": to do"}</span>
              </h3>
              <p className="muted">
                {why[step]}
                {step === CompletionStep.RUNTIME_APPLICATION &&
                  !isDone(step) &&
                  !isDone(CompletionStep.GIT_CREDENTIALS) &&
                  " It needs the Git credentials first."}
              </p>
            </div>
            <div className="step-action">{action(step)}</div>
          </li>
        ))}
      </ol>
      {/* Below: it comes and goes, and the steps stay where they are. */}
      {!runtime.online && <Note tone="warn">The runtime is offline. The steps continue when it reconnects.</Note>}
      {doing === CompletionStep.GIT_CREDENTIALS && (
        <CredentialsDialog
          name={runtime.name}
          back={back}
          onClose={() => setDoing(null)}
          onDone={() => finish(CompletionStep.GIT_CREDENTIALS)}
        />
      )}
      {doing === CompletionStep.USER_TOKEN && (
        <UserToken
          name={runtime.name}
          integrations={integrations.data?.integrations ?? []}
          onClose={() => setDoing(null)}
        />
      )}
    </div>
  );
}

// UserToken is the dialog of the settings, for the integration of the account.
function UserToken({
  name,
  integrations,
  onClose,
}: {
  name: string;
  integrations: Integration[];
  onClose: () => void;
}) {
  const { items } = useRuntimes();
  const of = integrations.find((one) => one.name === "default") ?? integrations[0];
  if (!of) {
    return (
      <Dialog title="Your Git token" isOpen onClose={onClose}>
        <p>The runtime does not know the Git provider of the account yet. Try again in a moment.</p>
      </Dialog>
    );
  }
  const others = [...items.values()].filter((one) => one.online && one.name !== name).map((one) => one.name);
  return <RegisterDialog runtimeName={name} others={others} of={of} onClose={onClose} />;
}

/** CompleteLink leads to the steps. */
export function CompleteLink({ name }: { name: string }) {
  return (
    <Link to="/install" search={{ runtime: name }} className={buttonClass("primary", true)}>
      Complete the installation
    </Link>
  );
}
