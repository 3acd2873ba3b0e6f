import type { ObjectEvent } from "../../api/gen/slipway/runtime/v1/application_pb";
import { Empty, Failure, Loading, Panel } from "../../ui/page";
import { Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import type { Place } from "./follow";
import { useEvents } from "./followevents";
import type { ResourceName } from "./resourcename";
import { Offline } from "./resources";

const columns: Column<ObjectEvent>[] = [
  {
    id: "type",
    header: "Type",
    cell: (row) => <Status tone={row.type === "Warning" ? "warn" : "off"}>{row.type || "Normal"}</Status>,
  },
  { id: "reason", header: "Reason", cell: (row) => row.reason },
  { id: "message", header: "Message", cell: (row) => <span className="event-message">{row.message}</span> },
  { id: "count", header: "Count", wideOnly: true, cell: (row) => row.count },
  { id: "source", header: "Source", wideOnly: true, cell: (row) => row.source },
  { id: "seen", header: "Last seen", cell: (row) => <Time at={row.lastSeenAt} /> },
];

export interface EventsProps {
  place: Place;
  online: boolean;
  /** Without it: of the application itself. */
  object?: ResourceName;
}

/** Events shows the Kubernetes events of a resource, the newest first. */
export function Events({ place, online, object }: EventsProps) {
  const { events: rows, error, retry } = useEvents(place, object, online);
  if (!rows) {
    if (error) return <Failure error={error} retry={retry} />;
    return online ? <Loading lines={6} /> : <Offline runtime={place.runtime} />;
  }
  if (rows.length === 0) return <Empty title="No events">Kubernetes keeps events for about an hour.</Empty>;
  return (
    <Panel flush>
      <Table
        label="Events"
        columns={columns}
        rows={rows}
        rowKey={(row) => `${row.type} ${row.reason} ${row.message} ${row.lastSeenAt?.seconds ?? ""} ${row.source}`}
      />
    </Panel>
  );
}
