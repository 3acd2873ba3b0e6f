// Small things that more than one view of the traffic shows.

import { Link } from "@tanstack/react-router";
import type { RouteRef, TrafficApplication, TrafficBackend } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { Dot, type Tone } from "../../ui/status";
import { Time } from "../../ui/time";
import { shortRevision, subject } from "./model";

const tones: Record<string, Tone> = { Healthy: "good", Progressing: "progress", Degraded: "bad", Missing: "warn" };

/** ApplicationLink leads to the page of an application. */
export function ApplicationLink({
  runtime,
  application,
  note = "",
}: {
  runtime: string;
  application: TrafficApplication | undefined;
  /** Additional information after its name. */
  note?: string;
}) {
  const ref = application?.ref;
  if (!application || !ref) return <span className="muted">none</span>;
  return (
    <span className="traffic-dotted">
      <Dot tone={tones[application.health] ?? "off"} label={application.health || "Unknown"} />
      <span className="traffic-lines">
        <Link
          to="/applications/$runtime/$namespace/$name"
          params={{ runtime, namespace: ref.namespace, name: ref.name }}
          preload={false}
          title={`${ref.namespace}/${ref.name}`}
        >
          {ref.name}
        </Link>
        {note !== "" && <span className="muted traffic-small">{note}</span>}
      </span>
    </span>
  );
}

/** Commit is what is deployed, in one line. */
export function Commit({ application }: { application: TrafficApplication | undefined }) {
  if (!application || application.revision === "") return <span className="muted">–</span>;
  return (
    <span
      title={`${application.revision}\n${application.commitMessage}${application.commitAuthor ? `\n${application.commitAuthor}` : ""}`}
    >
      <code>{shortRevision(application.revision)}</code> {subject(application.commitMessage)}
    </span>
  );
}

/** CommitFacts is what is deployed, with who wrote it and when. */
export function CommitFacts({ application }: { application: TrafficApplication | undefined }) {
  if (!application || application.revision === "") {
    return <p className="muted">No application of this runtime manages it, so there is no commit.</p>;
  }
  return (
    <>
      <p>
        <code>{shortRevision(application.revision)}</code> <strong>{subject(application.commitMessage)}</strong>
      </p>
      <p className="muted">
        {application.commitAuthor !== "" && <>{application.commitAuthor}, </>}
        {application.commitAt && <Time at={application.commitAt} />}
      </p>
      {application.repoUrl !== "" && <p className="muted mono traffic-small">{application.repoUrl}</p>}
    </>
  );
}

/** objectWord names the object of a route. */
export function objectWord(ref: RouteRef | undefined): string {
  if (!ref) return "";
  return ref.namespace === "" ? ref.name : `${ref.namespace}/${ref.name}`;
}

/** placeWord returns the position of a route in its object. */
export function placeWord(ref: RouteRef | undefined): string {
  if (ref?.kind !== "Ingress") return "";
  const place = `spec.rules[${ref.rule}].http.paths[${ref.path}]`;
  return ref.variant === "" ? place : `${place}, ${ref.variant}`;
}

/** BackendLine is a Service and how many of its endpoints take requests. */
export function BackendLine({ backend, shares }: { backend: TrafficBackend; shares: boolean }) {
  const tone: Tone = backend.broken !== "" || backend.readyEndpoints === 0 ? "bad" : "good";
  const ready = `${backend.readyEndpoints} of ${backend.endpoints} ready`;
  return (
    <div className="traffic-backend">
      <span className="traffic-dotted">
        <Dot tone={tone} label={tone === "good" ? "Ready" : "Not ready"} />
        <span>
          Service {backend.namespace}/{backend.service}:{backend.port}
        </span>
      </span>
      <div className="muted">
        {ready}
        {shares && `, weight ${backend.weight}`}
      </div>
      {backend.broken !== "" && <div className="tone-bad">{backend.broken}</div>}
    </div>
  );
}
