import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { ReleaseRevision, ReleaseState } from "../../api/gen/slipway/runtime/v1/release_pb";
import { runtime } from "../../api/runtime";
import { queries } from "../../app/queries";
import { Button } from "../../ui/button";
import { FormDialog } from "../../ui/form-dialog";
import { Empty, Facts, Failure, Loading, Note, Panel } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { toast } from "../../ui/toast";
import { shortRevision } from "../applications/parts";
import type { Place } from "./follow";
import { releasesQuery } from "./queries";
import { actionText, errorWord, latencyWord, phaseTone, sharesWord, totalWeight, weightWord } from "./release";
import { Offline } from "./resources";

export interface ReleasesProps {
  place: Place;
  online: boolean;
  /** Why nothing can be done now. */
  blocked: string;
}

/** Releases shows the canary and blue-green releases of an application, both revisions side by side. */
export function Releases({ place, online, blocked }: ReleasesProps) {
  const query = useQuery({ ...releasesQuery(place), enabled: online });
  if (!query.data) {
    if (query.error) return <Failure error={query.error} retry={() => void query.refetch()} />;
    return online ? <Loading lines={6} /> : <Offline runtime={place.runtime} />;
  }
  const { releases } = query.data;
  if (releases.length === 0) {
    return (
      <Empty title="No releases">
        A release is listed here while two revisions of a Deployment share its requests, and so are Rollouts of Argo
        Rollouts.
      </Empty>
    );
  }
  return (
    <div className="stack">
      {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
      {releases.map((release) => (
        <ReleasePanel
          key={`${release.object?.kind} ${release.object?.namespace} ${release.object?.name}`}
          place={place}
          release={release}
          blocked={blocked}
        />
      ))}
    </div>
  );
}

/** columns are those of the revisions, whose weights are parts of a total. */
const columns = (total: number): Column<ReleaseRevision>[] => [
  { id: "name", header: "Revision", cell: (row) => row.name || `${row.number}` },
  { id: "commit", header: "Commit", cell: (row) => <code title={row.commit}>{shortRevision(row.commit) || "–"}</code> },
  { id: "share", header: "Share", cell: (row) => weightWord(row.weight, total) },
  { id: "ready", header: "Ready", cell: (row) => row.ready },
  {
    id: "requests",
    header: "Requests",
    cell: (row) => (row.traffic ? row.traffic.requests.toLocaleString("en") : "–"),
  },
  {
    id: "errors",
    header: "Errors",
    cell: (row) => <span className={row.traffic?.errors ? "tone-bad" : undefined}>{errorWord(row.traffic)}</span>,
  },
  { id: "p50", header: "p50", wideOnly: true, cell: (row) => latencyWord(row.traffic?.p50Micros) },
  { id: "p99", header: "p99", cell: (row) => latencyWord(row.traffic?.p99Micros) },
  {
    id: "hash",
    header: "Hash",
    wideOnly: true,
    cell: (row) => <code title={row.images.join(", ")}>{row.hash}</code>,
  },
];

/** Shares is a bar with the part of each revision. A revision without weights, as in blue-green, has none. */
function Shares({ revisions }: { revisions: ReleaseRevision[] }) {
  const weighted = revisions.filter((one) => one.weight !== undefined);
  if (weighted.length < 2) return null;
  return (
    <div className="release-shares" role="img" aria-label={sharesWord(revisions)}>
      {weighted.map((one) => (
        <span key={`${one.name} ${one.hash}`} className={`of-${one.name}`} style={{ flexGrow: one.weight }} />
      ))}
    </div>
  );
}

const outcomes: Record<string, Tone> = { Pass: "good", Wait: "progress", Fail: "bad" };

function ReleasePanel({ place, release, blocked }: { place: Place; release: ReleaseState; blocked: string }) {
  const [chosen, setChosen] = useState("");
  const { decision } = release;
  const title = `${release.object?.kind} ${release.object?.name}`;
  return (
    <Panel
      title={title}
      actions={
        <div className="row">
          {release.actions
            .filter((action) => action.allowed)
            .map((action) => (
              <Button
                key={action.name}
                small
                variant={action.name === "abort" ? "danger" : "secondary"}
                isDisabled={blocked !== ""}
                onPress={() => setChosen(action.name)}
                aria-label={`${actionText(action.name).label} ${title}`}
              >
                {actionText(action.name).label}
              </Button>
            ))}
        </div>
      }
    >
      <div className="stack">
        <Facts
          items={[
            [
              "Status",
              <Status key="phase" tone={phaseTone(release.phase)}>
                {release.phase}
              </Status>,
            ],
            ["Message", release.message],
            ["Strategy", release.strategy],
            ["Step", release.steps > 0 ? `${release.step} of ${release.steps}` : ""],
            ...(decision
              ? ([
                  [
                    "Decision",
                    <>
                      <Status tone={outcomes[decision.outcome] ?? "off"}>{decision.outcome || "Wait"}</Status>{" "}
                      {[decision.reason, decision.message].filter(Boolean).join(": ")}{" "}
                      {decision.at && (
                        <span className="muted">
                          <Time at={decision.at} />
                        </span>
                      )}
                    </>,
                  ],
                ] satisfies [string, React.ReactNode][])
              : []),
          ]}
        />
        {release.revisions.length > 0 && (
          <div>
            <Shares revisions={release.revisions} />
            <Table
              label={`Revisions of ${title}`}
              columns={columns(totalWeight(release.revisions))}
              rows={release.revisions}
              rowKey={(row) => `${row.name} ${row.number} ${row.hash}`}
            />
          </div>
        )}
      </div>
      {chosen !== "" && (
        <ActDialog place={place} release={release} action={chosen} title={title} onClose={() => setChosen("")} />
      )}
    </Panel>
  );
}

interface ActDialogProps {
  place: Place;
  release: ReleaseState;
  action: string;
  title: string;
  onClose: () => void;
}

function ActDialog({ place, release, action, title, onClose }: ActDialogProps) {
  const { label, effect } = actionText(action);
  const act = async () => {
    await runtime(place.runtime).releases.requestAction({
      ref: { namespace: place.namespace, name: place.name },
      ...(release.object && { object: release.object }),
      action,
    });
    toast(`${label}: requested for ${title}.`);
    await queries.invalidateQueries({ queryKey: releasesQuery(place).queryKey });
  };
  return (
    <FormDialog title={`${label} ${title}`} submitLabel={label} onClose={onClose} onSubmit={act}>
      <p>{effect}</p>
    </FormDialog>
  );
}
