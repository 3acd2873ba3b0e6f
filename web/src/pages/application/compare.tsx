import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { explain } from "../../api/errors";
import type { ObjectDiff } from "../../api/gen/slipway/runtime/v1/application_pb";
import { Button } from "../../ui/button";
import { DiffView } from "../../ui/diff";
import { Checkbox } from "../../ui/field";
import { ManifestView } from "../../ui/manifest";
import { Empty, Failure, Loading, Note } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { shortRevision } from "../applications/parts";
import type { Place } from "./follow";
import { diffQuery } from "./queries";
import { objectOf, type ResourceName, writeObject } from "./resourcename";
import { Offline } from "./resources";

const actions: Record<string, [string, Tone]> = {
  create: ["To create", "progress"],
  change: ["To change", "warn"],
  prune: ["To prune", "bad"],
  same: ["Same", "good"],
};

// So many differences are open at first.
const open = 5;

/** Comparison is what a sync would change in the whole application. */
export function Comparison({ place, online, revision = "" }: { place: Place; online: boolean; revision?: string }) {
  const query = useQuery({ ...diffQuery(place, revision), enabled: online });
  const [same, setSame] = useState(false);
  const all = query.data?.objects;
  const different = useMemo(() => all?.filter((each) => each.action !== "same") ?? [], [all]);
  if (!query.data || !all) {
    if (query.error) return <Failure error={query.error} retry={() => void query.refetch()} />;
    return online ? <Loading lines={8} /> : <Offline runtime={place.runtime} />;
  }
  const shown = same ? all : different;
  return (
    <div className="stack">
      <div className="row">
        <span className="spread" role="status">
          {different.length === 0 ? "Equal to" : `${different.length} of ${all.length} resources differ from`}{" "}
          <code>{shortRevision(query.data.revision)}</code>
        </span>
        <Checkbox isSelected={same} onChange={setSame}>
          Show unchanged
        </Checkbox>
        <Button small onPress={() => void query.refetch()} isPending={query.isFetching}>
          Compare again
        </Button>
      </div>
      {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
      {query.data.warnings.map((warning) => (
        <Note key={warning} tone="warn">
          {warning}
        </Note>
      ))}
      {shown.length === 0 ? (
        <Empty title="In sync">A sync would change nothing.</Empty>
      ) : (
        shown.map((each, at) => (
          <ObjectDifference
            key={writeObject(objectOf(each.ref))}
            diff={each}
            isOpen={at < open && each.action !== "same"}
          />
        ))
      )}
    </div>
  );
}

function ObjectDifference({ diff, isOpen }: { diff: ObjectDiff; isOpen: boolean }) {
  const [shown, setShown] = useState(isOpen);
  const object = objectOf(diff.ref);
  const [word, tone] = actions[diff.action] ?? [diff.action, "off" as Tone];
  return (
    <details className="difference" open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>
        <strong>{object.kind}</strong>{" "}
        <span className="difference-name">{object.namespace ? `${object.namespace}/${object.name}` : object.name}</span>{" "}
        <Status tone={tone}>{word}</Status>
      </summary>
      {shown && <DifferenceBody diff={diff} />}
    </details>
  );
}

function DifferenceBody({ diff }: { diff: ObjectDiff }) {
  const object = objectOf(diff.ref);
  const label = `Difference of ${object.kind} ${object.name}`;
  if (diff.text !== "") return <DiffView text={diff.text} label={label} />;
  if (diff.predicted.length > 0) return <ManifestView manifest={diff.predicted} label={label} />;
  if (diff.live.length > 0) return <ManifestView manifest={diff.live} label={label} />;
  return <p className="muted">Nothing to show.</p>;
}

/** ResourceDifference is what a sync would change in one resource. */
export function ResourceDifference({ place, object }: { place: Place; object: ResourceName }) {
  const query = useQuery(diffQuery(place));
  if (!query.data) {
    if (query.error) return <Failure error={query.error} retry={() => void query.refetch()} />;
    return <Loading lines={8} />;
  }
  const diff = query.data.objects.find((each) => writeObject(objectOf(each.ref)) === writeObject(object));
  if (!diff) {
    return (
      <Empty title="Not in Git">The resource was created in the cluster, so there is nothing to compare it with.</Empty>
    );
  }
  if (diff.action === "same") return <Empty title="No differences">Git and cluster are equal.</Empty>;
  return <DifferenceBody diff={diff} />;
}
