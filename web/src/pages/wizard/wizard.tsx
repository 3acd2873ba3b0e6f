// Installing a runtime: what to choose, what to run, and waiting for it.

import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { useRuntimes } from "../../api/fleet";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { Empty, Loading, Page, Panel } from "../../ui/page";
import "../runtimes/runtimes.css";
import { AccessStep } from "./access-step";
import { CommandStep } from "./command-step";
import { accessProblems, type Draft, isComplete } from "./draft";
import { hasDraft, loadDraft, storeDraft } from "./draft-store";
import { GitStep, useGitSettings } from "./git-step";
import { JoinedPage } from "./joined";
import { KeyStep } from "./key-step";
import { NameStep, useNameCheck } from "./name-step";
import "./wizard.css";

const route = getRouteApi("/inside/install");
const crumbs = [{ label: "Runtimes", to: "/runtimes" as const }];

export function WizardPage() {
  const { isAdmin } = useSession();
  const { runtime } = route.useSearch();
  if (runtime) return <JoinedPage key={runtime} name={runtime} />;
  if (!isAdmin) {
    return (
      <Page title="Install a runtime" crumbs={crumbs}>
        <Panel>
          <Empty title="Only admins install runtimes">
            A runtime gets permissions in a cluster and joins the account. An admin of the account can install one, or
            make you an admin.
          </Empty>
        </Panel>
      </Page>
    );
  }
  return <Wizard />;
}

// useDraft keeps what is typed over a reload.
function useDraft(): [Draft, (part: Partial<Draft>) => void] {
  const [first] = useState(loadDraft);
  const [draft, setDraft] = useState(first);
  useEffect(() => {
    if (draft !== first) storeDraft(draft);
  }, [draft, first]);
  const change = useCallback((part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part })), []);
  return [draft, change];
}

// useProposal uses an available name until the user has chosen one.
function useProposal(proposal: string, change: (part: Partial<Draft>) => void): void {
  useEffect(() => {
    if (proposal !== "" && !hasDraft()) change({ name: proposal });
  }, [proposal, change]);
}

// useArrival continues when a runtime with the name joins while the page is open.
function useArrival(name: string, go: (name: string) => void): void {
  const { items, synced } = useRuntimes();
  const before = useRef<ReadonlySet<string> | null>(null);
  useEffect(() => {
    if (!synced) return;
    before.current ??= new Set(items.keys());
    if (items.has(name) && !before.current.has(name)) go(name);
  }, [items, synced, name, go]);
}

function Wizard() {
  const navigate = route.useNavigate();
  const { items, synced } = useRuntimes();
  const [draft, change] = useDraft();
  const check = useNameCheck(draft.name);
  useProposal(check.proposal, change);
  const git = useGitSettings();
  const go = useCallback((name: string) => void navigate({ search: { runtime: name } }), [navigate]);
  useArrival(draft.name, go);
  const first = synced && items.size === 0;
  const hasGit = Boolean(git.data?.settings?.provider);
  const ready = isComplete(draft) && check.problem === "" && hasGit;
  let number = 0;
  return (
    <Page
      title={first ? "Install the first runtime" : "Install a runtime"}
      crumbs={crumbs}
      subtitle="A few choices, one command, and the platform waits for it."
    >
      {!synced || git.isPending ? (
        <Panel>
          <Loading lines={8} />
        </Panel>
      ) : (
        <ol className="wizard">
          <Step number={++number} title="Git" done={hasGit}>
            <GitStep draft={draft} change={change} />
          </Step>
          <Step number={++number} title="Name" done={check.free}>
            <NameStep draft={draft} check={check} change={change} />
          </Step>
          <Step
            number={++number}
            title="Access"
            done={Object.values(accessProblems(draft)).every((problem) => problem === "")}
          >
            <AccessStep draft={draft} change={change} />
          </Step>
          <Step number={++number} title="API key">
            <KeyStep name={draft.name} />
          </Step>
          <Step number={++number} title="Command">
            <CommandStep draft={draft} isReady={isComplete(draft) && check.problem === ""} change={change} />
          </Step>
          <Step number={++number} title="Wait for the runtime">
            <div className="stack">
              <p className="muted">
                When the command runs, the runtime appears by itself, and the last steps are shown.
                {!hasGit && " Save the Git settings first: the runtime needs them."}
              </p>
              <div>
                <Button variant="primary" isDisabled={!ready} onPress={() => go(draft.name)}>
                  {`Wait for ${draft.name || "the runtime"}`}
                </Button>
              </div>
            </div>
          </Step>
        </ol>
      )}
    </Page>
  );
}

function Step(props: { number: number; title: string; done?: boolean; children: ReactNode }) {
  const { number, title, done, children } = props;
  return (
    <li className={done ? "wizard-step done" : "wizard-step"}>
      <Panel title={`${number}. ${title}`}>{children}</Panel>
    </li>
  );
}
