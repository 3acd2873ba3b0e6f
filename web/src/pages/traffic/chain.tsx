// From the commit to the requests: what is behind one route.

import type { ReactNode } from "react";
import type { RevisionTraffic } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { Dialog } from "../../ui/dialog";
import { Note } from "../../ui/page";
import { Sparkline } from "../../ui/sparkline";
import { Health, Sync } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import {
  errorPart,
  hostWord,
  partWord,
  pathWord,
  type RouteRow,
  rateWord,
  revisionsOf,
  shareWord,
  timeWord,
} from "./model";
import { ApplicationLink, BackendLine, CommitFacts, objectWord, placeWord } from "./parts";

/** Link of a chain. */
export function Step({ title, children }: { title: string; children: ReactNode }) {
  return (
    <li className="traffic-step">
      <h3>{title}</h3>
      {children}
    </li>
  );
}

/** ByService explains that only the Service belongs to the application. */
export function ByService() {
  return <p className="muted">Not in Git: only its backend Service belongs to the application.</p>;
}

export interface ChainProps {
  runtime: string;
  row: RouteRow | undefined;
  /** Revisions of all releases that run. */
  revisions: RevisionTraffic[];
  onClose: () => void;
}

export function Chain({ runtime, row, revisions, onClose }: ChainProps) {
  return (
    <Dialog
      title={row ? `${hostWord(row.route)} ${pathWord(row.route)}` : "Route"}
      isOpen={row !== undefined}
      onClose={onClose}
      wide
    >
      {row && <ChainSteps runtime={runtime} row={row} />}
      {row && <Revisions revisions={revisionsOf(row.route, revisions)} />}
    </Dialog>
  );
}

const columns = (all: RevisionTraffic[]): Column<RevisionTraffic>[] => [
  { id: "release", header: "Release", wideOnly: true, cell: (row) => `${row.namespace}/${row.release}` },
  { id: "revision", header: "Revision", cell: (row) => row.revision },
  { id: "share", header: "Share", cell: (row) => shareWord(row, all) },
  { id: "rate", header: "Requests/s", cell: (row) => rateWord(row.numbers?.requestsPerSecond ?? 0) },
  { id: "errors", header: "Errors", cell: (row) => partWord(errorPart(row.numbers)) },
  { id: "p50", header: "p50", wideOnly: true, cell: (row) => timeWord(row.numbers?.p50 ?? 0) },
  { id: "p99", header: "p99", cell: (row) => timeWord(row.numbers?.p99 ?? 0) },
  {
    id: "requests",
    header: "Total requests",
    wideOnly: true,
    cell: (row) => Number(row.numbers?.requests ?? 0n).toLocaleString("en"),
  },
];

/** Revisions compares what the revisions of a release serve; nothing without one. */
function Revisions({ revisions }: { revisions: RevisionTraffic[] }) {
  if (revisions.length === 0) return null;
  return (
    <Table
      label="Revisions"
      columns={columns(revisions)}
      rows={revisions}
      rowKey={(row) => `${row.namespace} ${row.release} ${row.revision}`}
    />
  );
}

function ChainSteps({ runtime, row }: { runtime: string; row: RouteRow }) {
  const { route, application, numbers, course } = row;
  return (
    <div className="stack">
      {route.status >= 500 && (
        <Note tone="bad">
          This route returns {route.status} without a backend. {route.message}
        </Note>
      )}
      {route.missingOn.length > 0 && <Note tone="warn">Not yet served by: {route.missingOn.join(", ")}.</Note>}
      <ol className="traffic-chain" aria-label="From the commit to the requests">
        <Step title="Commit">
          <CommitFacts application={application} />
        </Step>
        <Step title="Application">
          <p>
            <ApplicationLink runtime={runtime} application={application} />
          </p>
          {application ? (
            <>
              <p className="row">
                <Health value={application.health} /> <Sync value={application.sync} />
              </p>
              <p className="muted">deployed {application.deployedAt ? <Time at={application.deployedAt} /> : "–"}</p>
            </>
          ) : (
            <p className="muted">Not managed by Git.</p>
          )}
        </Step>
        <Step title={route.ref?.kind || "File"}>
          <p>{objectWord(route.ref)}</p>
          {route.applicationByService && <ByService />}
          <p className="muted mono traffic-small">{placeWord(route.ref)}</p>
        </Step>
        <Step title="Route">
          <p>
            {hostWord(route)} <code>{pathWord(route)}</code>
          </p>
          {route.conditions.map((condition) => (
            <p key={condition} className="muted">
              {condition}
            </p>
          ))}
          {route.policies.length > 0 && <p className="muted">Policies: {route.policies.join(", ")}</p>}
          {route.entryPoints.length > 0 && <p className="muted">Entry points: {route.entryPoints.join(", ")}</p>}
          {route.status > 0 && <p>The edge returns {route.status} itself.</p>}
          {route.backends.map((backend) => (
            <BackendLine
              key={`${backend.namespace}/${backend.service}:${backend.port}`}
              backend={backend}
              shares={route.backends.length > 1}
            />
          ))}
        </Step>
        <Step title="Live requests">
          {route.unmeasured ? (
            <p className="muted">Metrics are disabled for this route.</p>
          ) : (
            <>
              <p className="traffic-big">
                {rateWord(numbers?.requestsPerSecond ?? 0)} <span className="muted">per second</span>
              </p>
              <Sparkline
                values={course?.requests ?? []}
                width={160}
                height={40}
                label={`Requests per second, now ${rateWord(numbers?.requestsPerSecond ?? 0)}`}
              />
              <p className={errorPart(numbers) > 0 ? "tone-bad" : "muted"}>{partWord(errorPart(numbers))} errors</p>
              <p className="muted">
                p50 {timeWord(numbers?.p50 ?? 0)}, p99 {timeWord(numbers?.p99 ?? 0)}
              </p>
              <p className="muted">{Number(numbers?.requests ?? 0n).toLocaleString("en")} since the edge started</p>
            </>
          )}
        </Step>
      </ol>
    </div>
  );
}
