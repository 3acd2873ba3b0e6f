import { memo } from "react";
import { applicationKey } from "../../api/fleet";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Dot, Health, Sync } from "../../ui/status";
import { type Column, VirtualTable } from "../../ui/table";
import { Time } from "../../ui/time";
import { clusterOf, placeOf } from "./filter";
import { ApplicationLink, Revision, Running, Stale } from "./parts";

// Cells know their application and nothing else: one that did not change is not
// drawn again.
const NameCell = memo(function NameCell({ application }: { application: Application }) {
  return (
    <span className="app-name">
      <ApplicationLink application={application} />
      <Stale application={application} />
      {application.conditions.length > 0 && <Dot tone="bad" label={application.conditions.join(", ")} />}
    </span>
  );
});

const NarrowCell = memo(function NarrowCell({ application }: { application: Application }) {
  return (
    <span className="app-narrow">
      <NameCell application={application} />
      <span className="row">
        <Health value={application.health} />
        <Sync value={application.sync} />
        <Running application={application} />
      </span>
    </span>
  );
});

const SyncCell = memo(function SyncCell({ application }: { application: Application }) {
  return (
    <span className="app-sync">
      <Sync value={application.sync} /> <Running application={application} />
    </span>
  );
});

const PlaceCell = memo(function PlaceCell({ application }: { application: Application }) {
  const cluster = clusterOf(application.cluster);
  return (
    <span title={`${application.runtime} / ${cluster}`}>
      {application.runtime} <span className="muted">/ {cluster}</span>
    </span>
  );
});

const columns: Column<Application>[] = [
  { id: "name", header: "Name", width: "minmax(160px, 2fr)", cell: (row) => <NameCell application={row} /> },
  { id: "health", header: "Health", width: "122px", cell: (row) => <Health value={row.health} /> },
  { id: "sync", header: "Sync", width: "132px", cell: (row) => <SyncCell application={row} /> },
  {
    id: "runtime",
    header: "Runtime / cluster",
    width: "minmax(120px, 1.3fr)",
    cell: (row) => <PlaceCell application={row} />,
  },
  { id: "namespace", header: "Namespace", width: "minmax(90px, 1fr)", cell: (row) => placeOf(row) },
  {
    id: "revision",
    header: "Revision",
    width: "minmax(110px, 1.8fr)",
    cell: (row) => <Revision application={row} />,
  },
  { id: "changed", header: "Last sync", width: "118px", cell: (row) => <Time at={row.operationFinishedAt} /> },
];

const narrowColumns: Column<Application>[] = [
  { id: "name", header: "Application", cell: (row) => <NarrowCell application={row} /> },
];

/** ApplicationList is the applications as rows. */
export function ApplicationList({ rows, narrow }: { rows: Application[]; narrow: boolean }) {
  return (
    <VirtualTable
      // Rows of another height are another list.
      key={narrow ? "narrow" : "wide"}
      label="Applications"
      columns={narrow ? narrowColumns : columns}
      rows={rows}
      rowKey={applicationKey}
      rowHeight={narrow ? 66 : 44}
    />
  );
}
