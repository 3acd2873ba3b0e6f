import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { HistoryEntry } from "../../api/gen/slipway/runtime/v1/application_pb";
import { Button } from "../../ui/button";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { firstLine, shortRevision } from "../applications/parts";
import type { Detail, Place } from "./follow";
import { isAutomated } from "./manifest";
import { historyQuery } from "./queries";
import { Offline } from "./resources";
import { RollbackDialog } from "./rollback";

export interface HistoryProps {
  place: Place;
  detail: Detail;
  mayRollBack: boolean;
  online: boolean;
  /** Why nothing can be done now. */
  blocked: string;
}

/** History is the past syncs, the newest first, with the commit behind each. */
export function History({ place, detail, mayRollBack, online, blocked }: HistoryProps) {
  const query = useQuery({ ...historyQuery(place), enabled: online });
  const [target, setTarget] = useState<HistoryEntry | null>(null);
  if (!query.data) {
    if (query.error) return <Failure error={query.error} retry={() => void query.refetch()} />;
    return online ? <Loading lines={6} /> : <Offline runtime={place.runtime} />;
  }
  const rows = [...query.data.entries].reverse();
  if (rows.length === 0) {
    return <Empty title="No sync yet">Successful syncs are listed here. You can roll back to them.</Empty>;
  }
  const newest = rows[0];
  const columns: Column<HistoryEntry>[] = [
    { id: "id", header: "Sync", cell: (row) => `#${row.id}` },
    {
      id: "commit",
      header: "Commit",
      cell: (row) => (
        <div className="commit">
          <code title={row.revision}>{shortRevision(row.revision)}</code>{" "}
          <span title={row.commitMessage}>{firstLine(row.commitMessage)}</span>
          {row.commitAuthor && (
            <div className="muted">
              {row.commitAuthor}
              {row.commitAt && (
                <>
                  , <Time at={row.commitAt} />
                </>
              )}
            </div>
          )}
        </div>
      ),
    },
    { id: "when", header: "Deployed", cell: (row) => <Time at={row.deployedAt} /> },
    {
      id: "who",
      header: "By",
      wideOnly: true,
      cell: (row) => (row.automated ? "the sync policy" : row.initiatedBy || "–"),
    },
    {
      id: "action",
      header: "Action",
      cell: (row) =>
        row === newest ? (
          <span className="muted">Current</span>
        ) : !mayRollBack ? null : (
          <Button
            small
            isDisabled={blocked !== ""}
            onPress={() => setTarget(row)}
            aria-label={`Roll back to sync ${row.id}`}
          >
            Roll back
          </Button>
        ),
    },
  ];
  return (
    <div className="stack">
      {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
      {blocked !== "" && mayRollBack && <Note tone="off">Rollback is disabled. {blocked}</Note>}
      {blocked === "" && mayRollBack && isAutomated(detail.manifest) && (
        <Note tone="off">A rollback holds the application at that sync until a commit changes its objects.</Note>
      )}
      <Panel flush>
        <Table label="History" columns={columns} rows={rows} rowKey={(row) => String(row.id)} />
      </Panel>
      <p className="muted">
        The platform keeps{" "}
        <Link to="/history" search={{ runtime: place.runtime, app: `${place.namespace}/${place.name}` }}>
          all deployments of {place.name}
        </Link>
        , also when the cluster has forgotten them.
      </p>
      {target && <RollbackDialog place={place} detail={detail} entry={target} onClose={() => setTarget(null)} />}
    </div>
  );
}
