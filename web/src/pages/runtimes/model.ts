// What a runtime is in words, and what is wrong with it.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import {
  AccessMode,
  CompletionStep,
  HealthStatus,
  type Runtime,
  SyncStatus,
} from "../../api/gen/slipway/platform/v1/fleet_pb";
import type { Tone } from "../../ui/status";

const modes: Record<AccessMode, string> = {
  [AccessMode.UNSPECIFIED]: "Unknown",
  [AccessMode.TUNNEL]: "Tunnel",
  [AccessMode.INGRESS]: "Ingress",
  [AccessMode.HTTP_ROUTE]: "HTTPRoute",
  [AccessMode.MESH]: "Service mesh",
};

/** modeWord is how a runtime is reached. */
export const modeWord = (mode: AccessMode): string => modes[mode] ?? "Unknown";

/** typeWord is how a runtime was installed. */
export const typeWord = (runtime: Runtime): string => (runtime.chartVersion ? "Helm" : "Program");

/** componentOf returns the label of a component, which selects its logs. */
export const componentOf = (deployment: string): string => deployment.replace(/^slipway-/, "");

// A token that expires this soon needs attention.
const day = 86_400_000;
const tokenWarning = 14 * day;

export type Action =
  | "complete"
  | "credentials"
  | "components"
  | "application"
  | "git-sources"
  | "clusters"
  | "uninstall-command";

export interface Problem {
  id: string;
  tone: Tone;
  title: string;
  detail: string;
  action?: Action;
}

/** problemsOf names what is wrong with a runtime, the worst first. */
export function problemsOf(runtime: Runtime, now: number): Problem[] {
  const all: Problem[] = [];
  if (runtime.uninstalling) {
    all.push({
      id: "uninstalling",
      tone: "progress",
      title: "Uninstalling",
      detail: runtime.online
        ? "The runtime cleans up. When it is offline, remove it from the cluster with the Helm command."
        : "The runtime has cleaned up, or cannot be reached. Remove it from the cluster with the Helm command.",
      action: "uninstall-command",
    });
  }
  if (!runtime.online) {
    all.push({
      id: "offline",
      tone: "bad",
      title: "The runtime is offline",
      detail:
        "Its applications keep running, and changes in Git are still deployed if the cluster is healthy. The data shown here is stale.",
    });
  }
  all.push(...tokenProblems(runtime, now));
  if (runtime.pendingSteps.length > 0) {
    all.push({
      id: "complete",
      tone: "warn",
      title: "Complete the installation",
      detail: `${runtime.pendingSteps.length === 1 ? "One step is" : `${runtime.pendingSteps.length} steps are`} left: ${runtime.pendingSteps.map(stepTitle).join(", ")}.`,
      action: "complete",
    });
  }
  if (runtime.online && runtime.sync === SyncStatus.OUT_OF_SYNC) {
    all.push({
      id: "sync",
      tone: "warn",
      title: "The runtime is out of sync with Git",
      detail: "Its own Application is out of sync. Review the diff and sync it.",
      action: "application",
    });
  }
  all.push(...partProblems(runtime));
  // An offline runtime has no health, and problems of components are listed above.
  const isSaid = !runtime.online || all.some((one) => one.id.startsWith("component"));
  if (!isSaid && (runtime.health === HealthStatus.DEGRADED || runtime.healthMessage !== "")) {
    const degraded = runtime.health === HealthStatus.DEGRADED;
    all.push({
      id: "health",
      tone: degraded ? "bad" : "warn",
      title: degraded ? "The runtime is degraded" : "The runtime reports a problem",
      detail: runtime.healthMessage || "No reason reported. Check the logs of its components.",
      action: "components",
    });
  }
  return all.sort((a, b) => rank[a.tone] - rank[b.tone]);
}

const rank: Record<Tone, number> = { bad: 0, warn: 1, progress: 2, off: 3, good: 4 };

function tokenProblems(runtime: Runtime, now: number): Problem[] {
  if (!runtime.gitTokenExpiresAt) return [];
  const left = timestampDate(runtime.gitTokenExpiresAt).getTime() - now;
  if (left > tokenWarning) return [];
  const days = Math.ceil(left / day);
  return [
    left <= 0
      ? {
          id: "token",
          tone: "bad",
          title: "The Git token of the runtime has expired",
          detail: "Private repositories are no longer fetched. Set a new token.",
          action: "credentials",
        }
      : {
          id: "token",
          tone: "warn",
          title: `The Git token of the runtime expires in ${days === 1 ? "a day" : `${days} days`}`,
          detail: "Set a new token before then.",
          action: "credentials",
        },
  ];
}

function partProblems(runtime: Runtime): Problem[] {
  const parts: Problem[] = [];
  for (const one of runtime.components) {
    if (one.health === HealthStatus.HEALTHY || one.health === HealthStatus.UNSPECIFIED) continue;
    const bad = one.health === HealthStatus.DEGRADED || one.health === HealthStatus.MISSING;
    parts.push({
      id: `component ${one.name}`,
      tone: bad ? "bad" : "warn",
      title: `The component ${one.name} is not healthy`,
      detail: one.healthMessage || "See its logs.",
      action: "components",
    });
  }
  for (const one of runtime.gitSources) {
    if (one.message === "" && one.health !== HealthStatus.DEGRADED) continue;
    parts.push({
      id: `git-source ${one.name}`,
      tone: one.health === HealthStatus.DEGRADED ? "bad" : "warn",
      title: `The Git Source ${one.name} has a problem`,
      detail: one.message || "Its Applications cannot be read.",
      action: "git-sources",
    });
  }
  for (const one of runtime.clusters) {
    if (one.status !== "Failed") continue;
    parts.push({
      id: `cluster ${one.name}`,
      tone: "bad",
      title: `The cluster ${one.name} cannot be reached`,
      detail: one.message || one.server,
      action: "clusters",
    });
  }
  return parts;
}

/** stepTitle is a step of the installation in words. */
export function stepTitle(step: CompletionStep): string {
  switch (step) {
    case CompletionStep.GIT_CREDENTIALS:
      return "Git credentials of the runtime";
    case CompletionStep.USER_TOKEN:
      return "Your Git token";
    case CompletionStep.RUNTIME_APPLICATION:
      return "The runtime as an Application";
    default:
      return "A step unknown to this version of the console";
  }
}

export type SortKey = "name" | "cluster" | "version" | "seen" | "status";

const seen = (runtime: Runtime): number =>
  runtime.lastHeartbeatAt ? timestampDate(runtime.lastHeartbeatAt).getTime() : 0;

// States that need attention come first.
function urgency(runtime: Runtime): number {
  if (!runtime.online) return 0;
  if (runtime.health === HealthStatus.DEGRADED) return 1;
  if (runtime.sync === SyncStatus.COMPLETE_INSTALLATION || runtime.pendingSteps.length > 0) return 2;
  if (runtime.sync === SyncStatus.OUT_OF_SYNC) return 3;
  return 4;
}

const collator = new Intl.Collator("en", { numeric: true });

const orders: Record<SortKey, (a: Runtime, b: Runtime) => number> = {
  name: () => 0,
  cluster: (a, b) => collator.compare(`${a.cluster}/${a.namespace}`, `${b.cluster}/${b.namespace}`),
  version: (a, b) => collator.compare(a.version, b.version),
  seen: (a, b) => seen(b) - seen(a),
  status: (a, b) => urgency(a) - urgency(b),
};

/** chooseRuntimes are those that match what was typed, in order. */
export function chooseRuntimes(all: Iterable<Runtime>, query: string, sort: SortKey): Runtime[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const order = orders[sort];
  return [...all]
    .filter((runtime) => {
      const text = [runtime.name, runtime.cluster, runtime.namespace, runtime.version, modeWord(runtime.accessMode)]
        .join(" ")
        .toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => order(a, b) || collator.compare(a.name, b.name));
}
