import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Button } from "../../ui/button";
import { counted } from "../../ui/count";
import { Panel } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { shortRevision } from "../applications/parts";
import { isFinished, type OperationState, type ResourceResult } from "./manifest";

const phases: Record<string, Tone> = {
  Succeeded: "good",
  Running: "progress",
  Terminating: "warn",
  Failed: "bad",
  Error: "bad",
};

export function Phase({ value }: { value: string }) {
  return <Status tone={phases[value] ?? "off"}>{value || "Unknown"}</Status>;
}

const results: Record<string, [string, Tone]> = {
  Synced: ["Synced", "good"],
  SyncFailed: ["Failed", "bad"],
  Pruned: ["Pruned", "good"],
  PruneSkipped: ["Not pruned", "warn"],
};

// The message of a dry run for resources it did not change.
const dryResults: Record<string, [string, Tone]> = {
  Synced: ["Would sync", "progress"],
  SyncFailed: ["Would fail", "bad"],
  Pruned: ["Would prune", "warn"],
  PruneSkipped: ["Would stay", "off"],
};

function Result({ row, dryRun }: { row: ResourceResult; dryRun: boolean }) {
  if (row.hookType) return <Phase value={row.hookPhase ?? ""} />;
  const known = (dryRun ? dryResults : results)[row.status ?? ""];
  const [word, tone] = known ?? [row.status || "Waiting", "progress" as Tone];
  return <Status tone={tone}>{word}</Status>;
}

const columns = (dryRun: boolean): Column<ResourceResult>[] => [
  { id: "kind", header: "Kind", cell: (row) => row.kind },
  { id: "name", header: "Name", cell: (row) => (row.namespace ? `${row.namespace}/${row.name}` : row.name) },
  { id: "result", header: "Result", cell: (row) => <Result row={row} dryRun={dryRun} /> },
  { id: "phase", header: "When", wideOnly: true, cell: (row) => row.hookType || row.syncPhase || "" },
  { id: "message", header: "Message", cell: (row) => <span className="event-message">{row.message}</span> },
];

const firstResults = 100;

/** Results is what an operation did to each resource; what failed comes first. */
export function Results({ rows, dryRun }: { rows: ResourceResult[]; dryRun: boolean }) {
  const [all, setAll] = useState(false);
  const failed = (row: ResourceResult) =>
    row.status === "SyncFailed" || row.hookPhase === "Failed" || row.hookPhase === "Error";
  const ordered = [...rows].sort((a, b) => Number(failed(b)) - Number(failed(a)));
  const shown = all ? ordered : ordered.slice(0, firstResults);
  if (rows.length === 0) return null;
  return (
    <>
      <Table
        label="Result by resource"
        columns={columns(dryRun)}
        rows={shown}
        rowKey={(row) => [row.syncPhase, row.hookType, row.group, row.kind, row.namespace, row.name].join("/")}
      />
      {shown.length < rows.length && <Button onPress={() => setAll(true)}>{`Show all ${rows.length}`}</Button>}
    </>
  );
}

/** asked describes an operation in a few words. */
export function asked(state: OperationState): string {
  const sync = state.operation?.sync;
  const what = sync?.source || sync?.sources ? "Rollback" : "Sync";
  const parts = [sync?.dryRun ? `Dry run of a ${what.toLowerCase()}` : what];
  const revision = state.syncResult?.revision || sync?.revision || "";
  if (revision !== "") parts.push(`to ${shortRevision(revision)}`);
  if (sync?.prune) parts.push("with prune");
  if (sync?.resources && sync.resources.length > 0) parts.push(`of ${sync.resources.length} chosen resources`);
  const by = state.operation?.initiatedBy;
  if (by?.automated) parts.push("by the sync policy");
  else if (by?.username) parts.push(`by ${by.username}`);
  return parts.join(" ");
}

/** reportedOperation is the last reported operation, until the runtime sends details. */
export function reportedOperation(summary: Application): OperationState | undefined {
  const { operationPhase, operationMessage, operationFinishedAt } = summary;
  if (operationPhase === "") return undefined;
  return {
    phase: operationPhase,
    message: operationMessage,
    ...(operationFinishedAt && { finishedAt: timestampDate(operationFinishedAt).toISOString() }),
  };
}

/** OperationPanel is the operation that runs, or the last one. */
export function OperationPanel({ state }: { state: OperationState }) {
  const rows = state.syncResult?.resources ?? [];
  const done = isFinished(state);
  const good = state.phase === "Succeeded";
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? !good;
  return (
    <Panel
      title={done ? "Last operation" : "Running operation"}
      actions={
        rows.length > 0 && (
          <Button small variant="ghost" onPress={() => setChosen(!open)}>
            {open ? "Hide the resources" : `Show ${counted(rows.length, "resource", "resources")}`}
          </Button>
        )
      }
    >
      <div className="stack operation">
        <div className="row">
          <span className="row" role="status">
            <Phase value={state.phase ?? ""} /> {asked(state)}
          </span>
          <span className="muted">
            {state.finishedAt ? "ended" : "began"} <Time at={toDate(state.finishedAt ?? state.startedAt)} />
            {state.retryCount ? ` · tried again ${state.retryCount} times` : ""}
          </span>
        </div>
        {state.message && <p className="operation-message">{state.message}</p>}
        {open && <Results rows={rows} dryRun={state.operation?.sync?.dryRun ?? false} />}
      </div>
    </Panel>
  );
}

/** toDate is a time of Kubernetes. */
export function toDate(text: string | undefined): Date | undefined {
  if (!text) return undefined;
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? undefined : date;
}
