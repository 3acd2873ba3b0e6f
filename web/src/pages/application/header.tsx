import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Note } from "../../ui/page";
import { Health, Status, Sync } from "../../ui/status";
import { Time } from "../../ui/time";
import { clusterOf } from "../applications/filter";
import { firstLine, shortRevision } from "../applications/parts";
import type { Detail, Place } from "./follow";
import { isRunning } from "./manifest";
import { historyQuery } from "./queries";

export interface HeaderProps {
  place: Place;
  detail: Detail;
  summary: Application | null;
}

/** Header is how the application is: in Git, in the cluster, and what runs. */
export function Header({ place, detail, summary }: HeaderProps) {
  // The summary is newer when the stream of the runtime is lost.
  const status = detail.state === "live" || !summary ? detail.manifest?.status : undefined;
  const health = status?.health?.status ?? summary?.health ?? "";
  const healthMessage = status?.health?.message ?? summary?.healthMessage ?? "";
  const sync = status?.sync?.status ?? summary?.sync ?? "";
  const revision = status?.sync?.revision || status?.sync?.revisions?.join(",") || summary?.revision || "";
  const commit = useCommit(place, revision, summary, detail.state === "live");
  return (
    <section className="app-header" aria-label="State">
      <div className="app-header-item health">
        <span className="muted">Health</span>
        <Health value={health} />
        {healthMessage && (
          <span className="app-header-text" title={healthMessage}>
            {healthMessage}
          </span>
        )}
      </div>
      <div className="app-header-item">
        <span className="muted">Sync</span>
        <span className="row">
          <Sync value={sync} />
          {isRunning(detail.manifest) && detail.state === "live" && <Status tone="progress">Syncing</Status>}
        </span>
      </div>
      <div className="app-header-item grow">
        <span className="muted">Revision</span>
        <span>
          {revision ? <code title={revision}>{shortRevision(revision)}</code> : "–"}{" "}
          {commit.message && <span title={commit.message}>{firstLine(commit.message)}</span>}
        </span>
        {commit.author && <span className="muted">{commit.author}</span>}
      </div>
      <div className="app-header-item">
        <span className="muted">Runtime</span>
        <Link to="/runtimes/$runtime" params={{ runtime: place.runtime }}>
          {place.runtime}
        </Link>
        <span className="muted">{clusterOf(summary?.cluster)}</span>
      </div>
      <div className="app-header-item state">
        <span className="muted">State</span>
        <Freshness detail={detail} summary={summary} />
      </div>
    </section>
  );
}

// useCommit finds the commit of a revision: the runtime reported it, or a past sync has it.
function useCommit(place: Place, revision: string, summary: Application | null, live: boolean) {
  const history = useQuery({ ...historyQuery(place), enabled: live });
  if (summary && summary.revision === revision && summary.commitAuthor !== "") {
    return { author: summary.commitAuthor, message: summary.commitMessage };
  }
  const entry = history.data?.entries.findLast((each) => each.revision === revision);
  return { author: entry?.commitAuthor ?? "", message: entry?.commitMessage ?? "" };
}

function Freshness({ detail, summary }: { detail: Detail; summary: Application | null }) {
  if (detail.state === "live") return <Status tone="good">Live</Status>;
  if (detail.state === "connecting" && !summary?.stale) return <Status tone="progress">Connecting</Status>;
  return (
    <>
      <Status tone="warn">Stale</Status>
      {summary?.seenAt && (
        <span className="muted">
          seen <Time at={summary.seenAt} />
        </span>
      )}
    </>
  );
}

/** Conditions is what is wrong, in the words of the runtime. */
export function Conditions({ detail, summary }: { detail: Detail; summary: Application | null }) {
  const known = detail.manifest?.status?.conditions;
  const texts = known
    ? known.map((each) => ({ type: each.type ?? "", message: each.message ?? "" }))
    : (summary?.conditions ?? []).map((each) => ({ type: each, message: "" }));
  return texts.map(({ type, message }) => (
    <Note key={`${type} ${message}`} tone={type.endsWith("Error") ? "bad" : "warn"}>
      <strong>{type}</strong> <span className="condition">{message}</span>
    </Note>
  ));
}
