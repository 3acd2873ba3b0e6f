// An Application of argoproj.io/v1alpha1, as far as the console shows it.

export interface Source {
  repoURL?: string;
  path?: string;
  targetRevision?: string;
  chart?: string;
  ref?: string;
  name?: string;
}

export interface NameValue {
  name?: string;
  value?: string;
}

export interface ResourceStatus {
  group?: string;
  version?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  status?: string;
  health?: { status?: string; message?: string };
  hook?: boolean;
  requiresPruning?: boolean;
  syncWave?: number;
}

export interface ResourceResult {
  group?: string;
  version?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  status?: string;
  message?: string;
  hookType?: string;
  hookPhase?: string;
  syncPhase?: string;
}

export interface Operation {
  sync?: {
    revision?: string;
    prune?: boolean;
    dryRun?: boolean;
    resources?: unknown[];
    source?: Source;
    sources?: Source[];
  };
  initiatedBy?: { username?: string; automated?: boolean };
  info?: NameValue[];
}

export interface OperationState {
  operation?: Operation;
  phase?: string;
  message?: string;
  startedAt?: string;
  finishedAt?: string;
  retryCount?: number;
  syncResult?: { resources?: ResourceResult[]; revision?: string; revisions?: string[] };
}

export interface Condition {
  type?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface ApplicationManifest {
  metadata?: {
    name?: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    creationTimestamp?: string;
    deletionTimestamp?: string;
    ownerReferences?: { kind?: string; name?: string }[];
  };
  spec?: {
    project?: string;
    source?: Source;
    sources?: Source[];
    destination?: { server?: string; name?: string; namespace?: string };
    syncPolicy?: {
      automated?: { prune?: boolean; selfHeal?: boolean; allowEmpty?: boolean; enabled?: boolean };
      syncOptions?: string[];
      retry?: { limit?: number };
    };
    ignoreDifferences?: { group?: string; kind?: string; name?: string }[];
    info?: NameValue[];
  };
  status?: {
    sync?: { status?: string; revision?: string; revisions?: string[] };
    health?: { status?: string; message?: string; lastTransitionTime?: string };
    resources?: ResourceStatus[];
    conditions?: Condition[];
    operationState?: OperationState;
    reconciledAt?: string;
    sourceType?: string;
    sourceTypes?: string[];
    summary?: { externalURLs?: string[]; images?: string[] };
  };
  operation?: Operation;
}

/** readManifest reads what the runtime sent. */
export function readManifest(manifest: Uint8Array): ApplicationManifest {
  const value: unknown = JSON.parse(new TextDecoder().decode(manifest));
  return typeof value === "object" && value !== null ? value : {};
}

/** sourcesOf is the sources, whichever field has them. */
export function sourcesOf(manifest: ApplicationManifest): Source[] {
  const { sources, source } = manifest.spec ?? {};
  if (sources && sources.length > 0) return sources;
  return source ? [source] : [];
}

/** isAutomated is true if syncs are automated. */
export function isAutomated(manifest: ApplicationManifest | null): boolean {
  const automated = manifest?.spec?.syncPolicy?.automated;
  return automated !== undefined && automated.enabled !== false;
}

/** isRunning is true while an operation is requested or running. */
export function isRunning(manifest: ApplicationManifest | null): boolean {
  const phase = manifest?.status?.operationState?.phase;
  return manifest?.operation !== undefined || phase === "Running" || phase === "Terminating";
}

/** requestInfo is the name of the info entry with the ID of the request. */
export const requestInfo = "slipway.dev/request";

export type Progress = { step: "waiting" } | { step: "known"; state: OperationState } | { step: "lost" };

/** progressOf finds the operation of a request. began is the start of the previous one. */
export function progressOf(manifest: ApplicationManifest | null, request: string, began: string): Progress {
  const marked = (operation: Operation | undefined): boolean =>
    operation?.info?.some((info) => info.name === requestInfo && info.value === request) ?? false;
  const state = manifest?.status?.operationState;
  if (marked(manifest?.operation)) return { step: "waiting" };
  if (state && marked(state.operation)) return { step: "known", state };
  // Another one took its place.
  if (state && (state.startedAt ?? "") > began) return { step: "lost" };
  return { step: "waiting" };
}

/** isFinished is true when an operation has ended, with any result. */
export function isFinished(state: OperationState): boolean {
  return state.phase === "Succeeded" || state.phase === "Failed" || state.phase === "Error";
}

/** safeLink is an address that a link may have: a manifest can have any text there. */
export function safeLink(address: string | undefined): string | null {
  if (!address) return null;
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}
