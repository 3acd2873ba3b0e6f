// After the command: waiting for the runtime, and then what is left to do.

import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { useRuntimes } from "../../api/fleet";
import { CompletionStep, type Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { useSession } from "../../app/session";
import { buttonClass } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Failure, Loading, Page, Panel } from "../../ui/page";
import { Dot } from "../../ui/status";
import { CompletionSteps } from "../runtimes/completion";
import { modeWord } from "../runtimes/model";
import { forgetDraft } from "./draft-store";
import { PreflightResults } from "./preflight-results";

const crumbs = [{ label: "Runtimes", to: "/runtimes" as const }];

/** JoinedPage waits for a runtime, and completes its installation. */
export function JoinedPage({ name }: { name: string }) {
  const { isAdmin } = useSession();
  const { items, synced, error } = useRuntimes();
  const runtime = items.get(name);
  const isThere = runtime !== undefined;
  useEffect(() => {
    if (isThere) forgetDraft(name);
  }, [isThere, name]);
  if (!runtime && !synced) {
    return (
      <Page title={`Install ${name}`} crumbs={crumbs}>
        <Panel>{error ? <Failure error={error} /> : <Loading lines={6} />}</Panel>
      </Page>
    );
  }
  return (
    <Page title={runtime ? `Complete ${name}` : `Install ${name}`} crumbs={crumbs}>
      <Panel title="Connection">
        <div role="status" className="wizard-wait">
          {runtime ? <Present runtime={runtime} /> : <Waiting name={name} />}
        </div>
        {!runtime && <WaitingHelp />}
      </Panel>
      {runtime && (
        <>
          <Panel title="Complete the installation">
            <CompletionSteps runtime={runtime} back={`/install?runtime=${encodeURIComponent(name)}`} />
          </Panel>
          <Panel title="Next steps">
            <div className="row">
              <Link
                to="/runtimes/$runtime"
                params={{ runtime: name }}
                search={{ tab: "git-sources" }}
                className={buttonClass(runtime.pendingSteps.length === 0 ? "primary" : "secondary")}
              >
                Add a Git Source
              </Link>
              <Link
                to="/runtimes/$runtime"
                params={{ runtime: name }}
                search={{ tab: "clusters" }}
                className={buttonClass()}
              >
                Add other clusters
              </Link>
              <Link to="/runtimes/$runtime" params={{ runtime: name }} className={buttonClass()}>
                Open the runtime
              </Link>
            </div>
          </Panel>
          {/* The last: it grows while people look. */}
          {isAdmin && runtime.online && (
            <Panel title="Checks after the installation">
              {/* With credentials there is more to check. */}
              <PreflightResults
                key={runtime.pendingSteps.includes(CompletionStep.GIT_CREDENTIALS) ? "before" : "after"}
                name={name}
              />
            </Panel>
          )}
        </>
      )}
    </Page>
  );
}

function Present({ runtime }: { runtime: Runtime }) {
  return (
    <>
      <Dot tone={runtime.online ? "good" : "bad"} label={runtime.online ? "online" : "offline"} />
      <span>
        {runtime.online ? `${runtime.name} is connected` : `${runtime.name} has joined, and is offline now`}
        {": "}
        {modeWord(runtime.accessMode)}
        {runtime.version && `, version ${runtime.version}`}, in {runtime.cluster}/{runtime.namespace}.
      </span>
    </>
  );
}

function Waiting({ name }: { name: string }) {
  return (
    <>
      <span className="wizard-pulse" aria-hidden="true" />
      <span>Waiting for {name}. It appears here by itself, within a second of joining.</span>
    </>
  );
}

function WaitingHelp() {
  return (
    <details className="more">
      <summary>The runtime does not appear</summary>
      <div className="stack details-body">
        <p>The agent's log shows the reason. Use the namespace that you chose:</p>
        <CopyBlock
          label="Commands to inspect the agent"
          text={
            "kubectl get pods --namespace slipway\nkubectl logs deployment/slipway-agent --namespace slipway --tail 50"
          }
        />
        <ul>
          <li>Pods do not start: the image cannot be pulled, or the nodes have no capacity.</li>
          <li>The key is refused: it is older than a day, or belongs to another account. Generate another.</li>
          <li>The platform is not reachable: the cluster must be able to connect to {window.location.origin}.</li>
        </ul>
        <div>
          <Link to="/install" className={buttonClass("secondary", true)}>
            Back to the commands
          </Link>
        </div>
      </div>
    </details>
  );
}
