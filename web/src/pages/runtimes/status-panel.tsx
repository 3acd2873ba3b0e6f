// What is wrong with a runtime, and what to do about it.

import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { HealthStatus, type Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { useSession } from "../../app/session";
import { Button, buttonClass } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Panel } from "../../ui/page";
import { Dot, type Tone } from "../../ui/status";
import { Time, useNow } from "../../ui/time";
import { shellWord } from "../wizard/install-command";
import { PreflightResults } from "../wizard/preflight-results";
import { uninstallCommand } from "./actions";
import { CompleteLink } from "./completion";
import { CredentialsDialog } from "./credentials";
import { type Problem, problemsOf } from "./model";

const tones: Record<Tone, string> = {
  bad: "error",
  warn: "warning",
  progress: "under way",
  good: "well",
  off: "unknown",
};

export function StatusPanel({ runtime }: { runtime: Runtime }) {
  const { isAdmin } = useSession();
  const [dialog, setDialog] = useState(false);
  const [checking, setChecking] = useState(false);
  const now = useNow();
  const problems = problemsOf(runtime, now);
  return (
    <Panel
      title="Status"
      actions={
        isAdmin && (
          <Button small onPress={() => setChecking(true)} isDisabled={!runtime.online || checking}>
            Run checks
          </Button>
        )
      }
    >
      <Boxes runtime={runtime} problems={problems} />
      <div aria-live="polite">
        {problems.length === 0 ? (
          <p>Healthy: no problems found.</p>
        ) : (
          <ul className="problems" aria-label="Problems">
            {problems.map((problem) => (
              <li key={problem.id} className={`problem tone-${problem.tone}`} data-problem={problem.id}>
                <Dot tone={problem.tone} label={tones[problem.tone]} />
                <div className="problem-text">
                  <strong>{problem.title}</strong>
                  <div>{problem.detail}</div>
                  {problem.id === "offline" && <OfflineHelp runtime={runtime} />}
                  {problem.action === "uninstall-command" && (
                    <CopyBlock label="Command that removes the runtime" text={uninstallCommand(runtime)} />
                  )}
                </div>
                <ProblemAction problem={problem} runtime={runtime} onCredentials={() => setDialog(true)} />
              </li>
            ))}
          </ul>
        )}
      </div>
      {checking && (
        <div className="checks">
          <PreflightResults name={runtime.name} />
        </div>
      )}
      {dialog && (
        <CredentialsDialog name={runtime.name} back={`/runtimes/${runtime.name}`} onClose={() => setDialog(false)} />
      )}
    </Panel>
  );
}

function ProblemAction(props: { problem: Problem; runtime: Runtime; onCredentials: () => void }) {
  const { problem, runtime, onCredentials } = props;
  const { isAdmin } = useSession();
  switch (problem.action) {
    case "complete":
      return <CompleteLink name={runtime.name} />;
    case "credentials":
      return isAdmin ? (
        <Button small variant="primary" onPress={onCredentials} isDisabled={!runtime.online}>
          Update credentials
        </Button>
      ) : null;
    case "application":
      return (
        <Link
          to="/applications"
          search={{ runtime: runtime.name, sync: "OutOfSync" }}
          className={buttonClass("secondary", true)}
        >
          See the Application
        </Link>
      );
    case "components":
    case "git-sources":
    case "clusters":
      return (
        <Link
          to="/runtimes/$runtime"
          params={{ runtime: runtime.name }}
          search={{ tab: problem.action }}
          className={buttonClass("secondary", true)}
          resetScroll={false}
        >
          {problem.action === "components" && isAdmin ? "Show logs" : "See it"}
        </Link>
      );
    default:
      return null;
  }
}

function OfflineHelp({ runtime }: { runtime: Runtime }) {
  const namespace = shellWord(runtime.namespace || "slipway");
  const commands = [
    `kubectl get pods --namespace ${namespace}`,
    `kubectl logs deployment/slipway-agent --namespace ${namespace} --tail 50`,
  ];
  return (
    <>
      <div className="muted">
        The last heartbeat was <Time at={runtime.lastHeartbeatAt} />. Check that its Pods run, that the cluster reaches{" "}
        {window.location.origin}, and that its credentials were not revoked. Its log shows the reason:
      </div>
      <CopyBlock label="Commands to inspect an offline runtime" text={commands.join("\n")} />
    </>
  );
}

interface BoxFacts {
  title: string;
  tone: Tone;
  text: string;
}

const worst = (problems: Problem[], begin: string): Tone | undefined =>
  problems.filter((one) => one.id.startsWith(begin)).map((one) => one.tone)[0];

function boxes(runtime: Runtime, problems: Problem[]): BoxFacts[] {
  const off: Tone = runtime.online ? "good" : "off";
  const count = (some: number, word: string) => `${some} ${word}${some === 1 ? "" : "s"}`;
  const healthy = runtime.components.filter((one) => one.health === HealthStatus.HEALTHY).length;
  return [
    {
      title: "Connection",
      tone: runtime.online ? "good" : "bad",
      text: runtime.online ? "Online" : "Offline",
    },
    {
      title: "Installation",
      tone: runtime.pendingSteps.length > 0 ? "warn" : off,
      text: runtime.pendingSteps.length > 0 ? `${count(runtime.pendingSteps.length, "step")} left` : "Complete",
    },
    {
      title: "Components",
      tone: worst(problems, "component ") ?? off,
      text: runtime.components.length === 0 ? "None reported" : `${healthy} of ${runtime.components.length} healthy`,
    },
    {
      title: "Git Sources",
      tone: worst(problems, "git-source ") ?? off,
      text: count(runtime.gitSources.length, "source"),
    },
    {
      title: "Managed clusters",
      tone: worst(problems, "cluster ") ?? off,
      text: count(runtime.clusters.length, "cluster"),
    },
  ];
}

function Boxes({ runtime, problems }: { runtime: Runtime; problems: Problem[] }) {
  return (
    <ul className="status-boxes" aria-label="Parts">
      {boxes(runtime, problems).map((one) => (
        <li key={one.title} className={`status-box tone-${one.tone}`}>
          <span className="muted">{one.title}</span>
          <strong>{one.text}</strong>
          <span className="visually-hidden">{tones[one.tone]}</span>
        </li>
      ))}
    </ul>
  );
}
