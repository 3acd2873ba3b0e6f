import { Link } from "@tanstack/react-router";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { SyncStatus } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Dot, Status, Sync, syncWord } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { modeWord, typeWord } from "./model";

/** NameWithDot is a runtime, with whether it is online. */
function NameWithDot({ runtime }: { runtime: Runtime }) {
  return (
    <span className="runtime-name">
      <Dot tone={runtime.online ? "good" : "bad"} label={runtime.online ? "online" : "offline"} />
      <Link to="/runtimes/$runtime" params={{ runtime: runtime.name }}>
        {runtime.name}
      </Link>
    </span>
  );
}

/** RuntimeSync is the sync status; one that is not complete leads to the steps. */
export function RuntimeSync({ runtime }: { runtime: Runtime }) {
  if (runtime.uninstalling) return <Status tone="progress">Uninstalling</Status>;
  if (runtime.sync === SyncStatus.COMPLETE_INSTALLATION || runtime.pendingSteps.length > 0) {
    return (
      <Link to="/install" search={{ runtime: runtime.name }} className="status tone-warn">
        Complete installation
      </Link>
    );
  }
  return <Sync value={syncWord(runtime.sync)} />;
}

/** RuntimeVersion is the version, with the news of a newer one. */
export function RuntimeVersion({ runtime }: { runtime: Runtime }) {
  return (
    <span className="runtime-version">
      <span>{runtime.version || "–"}</span>
      {runtime.updateAvailable && (
        <span title={`Version ${runtime.updateAvailable} is out.`}>
          <Status tone="progress">Update available</Status>
          <span className="visually-hidden">: {runtime.updateAvailable}</span>
        </span>
      )}
    </span>
  );
}

const columns: Column<Runtime>[] = [
  { id: "name", header: "Name", cell: (runtime) => <NameWithDot runtime={runtime} /> },
  {
    id: "type",
    header: "Type",
    wideOnly: true,
    cell: (runtime) => (
      <span className="runtime-version">
        <span>{typeWord(runtime)}</span>
        {runtime.configurationRuntime && <Status tone="progress">Configuration runtime</Status>}
      </span>
    ),
  },
  {
    id: "cluster",
    header: "Cluster / namespace",
    cell: (runtime) => (
      <span className="runtime-place">
        <span>{runtime.cluster || "–"}</span>
        <span className="muted">{runtime.namespace}</span>
      </span>
    ),
  },
  { id: "mode", header: "Access", wideOnly: true, cell: (runtime) => modeWord(runtime.accessMode) },
  {
    id: "clusters",
    header: "Managed clusters",
    wideOnly: true,
    cell: (runtime) => runtime.clusters.length,
  },
  { id: "version", header: "Version", wideOnly: true, cell: (runtime) => <RuntimeVersion runtime={runtime} /> },
  { id: "seen", header: "Last seen", wideOnly: true, cell: (runtime) => <Time at={runtime.lastHeartbeatAt} /> },
  { id: "sync", header: "Sync status", cell: (runtime) => <RuntimeSync runtime={runtime} /> },
];

/** RuntimeList is the runtimes as a table. */
export function RuntimeList({ runtimes }: { runtimes: Runtime[] }) {
  return <Table label="Runtimes" columns={columns} rows={runtimes} rowKey={(runtime) => runtime.name} />;
}
