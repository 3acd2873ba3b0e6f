import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import type { GetResourceResponse } from "../../api/gen/slipway/runtime/v1/application_pb";
import { Dialog } from "../../ui/dialog";
import { ManifestView } from "../../ui/manifest";
import { Empty, Failure, Loading, Note } from "../../ui/page";
import { Tabs } from "../../ui/tabs";
import { ResourceDifference } from "./compare";
import { Events } from "./events";
import type { Place } from "./follow";
import { Logs } from "./logs";
import { resourceQuery } from "./queries";
import { ResourceActions } from "./resourceactions";
import type { ResourceName } from "./resourcename";
import { Offline } from "./resources";

const withPods = new Set(["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Rollout"]);

type Tab = "live" | "desired" | "diff" | "events" | "logs";

export interface ResourceDialogProps {
  place: Place;
  online: boolean;
  mayLogs: boolean;
  object: ResourceName;
  /** Set if the tree reports changes of the resource. */
  followed: boolean;
  onClose: () => void;
}

/** ResourceDialog is everything about one resource. */
export function ResourceDialog({ place, online, mayLogs, object, followed, onClose }: ResourceDialogProps) {
  const [tab, setTab] = useState<Tab>("live");
  const query = useQuery({ ...resourceQuery(place, object, followed), enabled: online });
  const live = query.data?.live;
  const containers = useMemo(() => containersOf(live), [live]);
  const tabs: { id: Tab; label: string; content: ReactNode }[] = [
    { id: "live", label: "Live", content: <Manifest query={query} side="live" online={online} place={place} /> },
    {
      id: "desired",
      label: "Desired",
      content: <Manifest query={query} side="desired" online={online} place={place} />,
    },
    {
      id: "diff",
      label: "Diff",
      content: online ? <ResourceDifference place={place} object={object} /> : <Offline runtime={place.runtime} />,
    },
    { id: "events", label: "Events", content: <Events place={place} online={online} object={object} /> },
  ];
  if (mayLogs && withPods.has(object.kind)) {
    tabs.push({
      id: "logs",
      label: "Logs",
      content: <Logs place={place} online={online} object={object} containers={containers} />,
    });
  }
  return (
    <Dialog title={`${object.kind} ${object.name}`} isOpen onClose={onClose} wide>
      <div className="resource-body">
        <div className="row">
          <p className="muted">
            {object.group || "core"}
            {object.namespace && ` · namespace ${object.namespace}`}
          </p>
          <span className="spread" />
          {online && <ResourceActions place={place} object={object} />}
        </div>
        <Tabs label="Resource" tabs={tabs} selected={tab} onSelect={setTab} />
      </div>
    </Dialog>
  );
}

interface ManifestProps {
  query: UseQueryResult<GetResourceResponse>;
  side: "live" | "desired";
  online: boolean;
  place: Place;
}

function Manifest({ query, side, online, place }: ManifestProps) {
  const { data, error, refetch } = query;
  if (!data) {
    if (error) return <Failure error={error} retry={() => void refetch()} />;
    return online ? <Loading lines={12} /> : <Offline runtime={place.runtime} />;
  }
  const bytes = side === "live" ? data.live : data.desired;
  if (bytes.length > 0) {
    return <ManifestView manifest={bytes} label={side === "live" ? "Live manifest" : "Desired manifest"} />;
  }
  if (side === "live") return <Empty title="Not in the cluster">A sync would create it.</Empty>;
  if (data.desiredProblem) return <Note tone="warn">{data.desiredProblem}</Note>;
  return <Empty title="Not in Git">The resource was created in the cluster, or removed from Git.</Empty>;
}

interface PodSpec {
  containers?: { name?: string }[];
  initContainers?: { name?: string }[];
}

/** containersOf is the containers of a Pod, or of the template that Pods are made from. */
export function containersOf(manifest: Uint8Array | undefined): string[] {
  if (!manifest || manifest.length === 0) return [];
  try {
    const object = JSON.parse(new TextDecoder().decode(manifest)) as {
      spec?: PodSpec & { template?: { spec?: PodSpec }; jobTemplate?: { spec?: { template?: { spec?: PodSpec } } } };
    };
    const spec = object.spec?.jobTemplate?.spec?.template?.spec ?? object.spec?.template?.spec ?? object.spec;
    return [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])]
      .map((each) => each.name ?? "")
      .filter(Boolean);
  } catch {
    return [];
  }
}
