import { HealthStatus, SyncStatus } from "../api/gen/slipway/platform/v1/fleet_pb";

export type Tone = "good" | "progress" | "warn" | "bad" | "off";

export function Status({ tone, children }: { tone: Tone; children: string }) {
  return <span className={`status tone-${tone}`}>{children}</span>;
}

/** Dot is a state that stands beside a name; label is for those who cannot see it. */
export function Dot({ tone, label }: { tone: Tone; label: string }) {
  return <span className={`dot tone-${tone}`} role="img" aria-label={label} title={label} />;
}

const health: Record<string, Tone> = {
  Healthy: "good",
  Progressing: "progress",
  Degraded: "bad",
  Missing: "warn",
  Suspended: "off",
  Unknown: "off",
};

const sync: Record<string, Tone> = {
  Synced: "good",
  Syncing: "progress",
  OutOfSync: "warn",
  "Complete installation": "warn",
  Unknown: "off",
};

/** Health shows a health in Argo's words. */
export function Health({ value }: { value: string }) {
  return <Status tone={health[value] ?? "off"}>{value || "Unknown"}</Status>;
}

/** Sync shows a sync status in Argo's words. */
export function Sync({ value }: { value: string }) {
  return <Status tone={sync[value] ?? "off"}>{value === "OutOfSync" ? "Out of sync" : value || "Unknown"}</Status>;
}

const healthWords: Record<HealthStatus, string> = {
  [HealthStatus.UNSPECIFIED]: "Unknown",
  [HealthStatus.HEALTHY]: "Healthy",
  [HealthStatus.PROGRESSING]: "Progressing",
  [HealthStatus.DEGRADED]: "Degraded",
  [HealthStatus.MISSING]: "Missing",
  [HealthStatus.SUSPENDED]: "Suspended",
  [HealthStatus.UNKNOWN]: "Unknown",
};

const syncWords: Record<SyncStatus, string> = {
  [SyncStatus.UNSPECIFIED]: "Unknown",
  [SyncStatus.SYNCED]: "Synced",
  [SyncStatus.SYNCING]: "Syncing",
  [SyncStatus.OUT_OF_SYNC]: "OutOfSync",
  [SyncStatus.UNKNOWN]: "Unknown",
  [SyncStatus.COMPLETE_INSTALLATION]: "Complete installation",
};

/** healthWord and syncWord are what runtimes report, in Argo's words. */
export const healthWord = (status: HealthStatus): string => healthWords[status] ?? "Unknown";
export const syncWord = (status: SyncStatus): string => syncWords[status] ?? "Unknown";
