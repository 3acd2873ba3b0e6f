import { Link } from "@tanstack/react-router";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Dot } from "../../ui/status";

/** shortRevision shortens commits; versions stay complete. */
export function shortRevision(revision: string): string {
  return revision
    .split(",")
    .map((each) => (/^[0-9a-f]{40,64}$/.test(each) ? each.slice(0, 8) : each))
    .join(", ");
}

/** firstLine returns the subject of a commit. */
export function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

/** ApplicationLink goes to an application. */
export function ApplicationLink({ application }: { application: Application }) {
  const { runtime, namespace, name } = application;
  return (
    <Link
      to="/applications/$runtime/$namespace/$name"
      params={{ runtime, namespace, name }}
      title={`${runtime} / ${namespace} / ${name}`}
    >
      {name}
    </Link>
  );
}

/** Stale marks what may be old. */
export function Stale({ application }: { application: Application }) {
  if (!application.stale) return null;
  return (
    <span className="stale" title={`The runtime ${application.runtime} is offline: this is its last report.`}>
      stale
    </span>
  );
}

/** Running marks an application that is synced now. */
export function Running({ application }: { application: Application }) {
  if (application.operationPhase !== "Running" && application.operationPhase !== "Terminating") return null;
  return <Dot tone="progress" label="A sync runs" />;
}

export function Revision({ application }: { application: Application }) {
  if (application.revision === "") return <span className="muted">–</span>;
  const message = firstLine(application.commitMessage);
  const title = [application.revision, application.commitAuthor, message].filter(Boolean).join("\n");
  return (
    <span title={title}>
      <code>{shortRevision(application.revision)}</code> {message && <span className="muted">{message}</span>}
    </span>
  );
}
