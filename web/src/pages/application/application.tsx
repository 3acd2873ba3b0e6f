import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { explain } from "../../api/errors";
import { applicationKey, useApplications, useRuntimes } from "../../api/fleet";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { queries } from "../../app/queries";
import { buttonClass } from "../../ui/button";
import { Empty, Failure, Loading, Note, Page } from "../../ui/page";
import { Tabs } from "../../ui/tabs";
import "../applications/filters.css";
import { Actions } from "./actions";
import "./application.css";
import { Comparison } from "./compare";
import { Details } from "./details";
import { Events } from "./events";
import { type Detail, type Place, useApplicationDetail } from "./follow";
import { useFreshResources, useTree } from "./followtree";
import { Conditions, Header } from "./header";
import { History } from "./history";
import { Logs } from "./logs";
import { OperationPanel, reportedOperation } from "./phase";
import { applicationKeyOf, isRendered } from "./queries";
import { hasReleases } from "./release";
import { Releases } from "./releases";
import { ResourceDialog } from "./resource";
import { objectOf, type ResourceName, readObject, writeObject } from "./resourcename";
import { Resources } from "./resources";
import { useRights } from "./rights";

const route = getRouteApi("/inside/applications/$runtime/$namespace/$name");
const tabIDs = ["resources", "releases", "diff", "events", "logs", "history", "details"] as const;
type TabID = (typeof tabIDs)[number];

export function ApplicationPage() {
  const { runtime, namespace, name } = route.useParams();
  const place = useMemo(() => ({ runtime, namespace, name }), [runtime, namespace, name]);
  const applications = useApplications();
  const runtimes = useRuntimes();
  const summary = applications.items.get(applicationKey(place)) ?? null;
  const known = runtimes.items.get(runtime);
  // Until the runtime is known to be offline, requests are sent.
  const online = known ? known.online : !runtimes.synced;
  const detail = useApplicationDetail(place, summary?.uid ?? "", online);
  useFresh(place, detail);

  const crumbs = [{ label: "Applications", to: "/applications" as const }];
  if (!detail.manifest && detail.state === "denied" && detail.error) {
    return (
      <Page title={name} crumbs={crumbs}>
        <Failure error={detail.error} />
      </Page>
    );
  }
  if (detail.state === "gone" || (!detail.manifest && !summary && applications.synced && runtimes.synced && !online)) {
    return (
      <Page title={name} crumbs={crumbs}>
        <Gone place={place} known={known !== undefined} />
      </Page>
    );
  }
  if (!detail.manifest && !summary) {
    return (
      <Page title={name} crumbs={crumbs}>
        {detail.error ? <Failure error={detail.error} /> : <Loading lines={14} />}
      </Page>
    );
  }
  return <Known place={place} detail={detail} summary={summary} online={online} />;
}

// useFresh refetches active queries when the application changes, and once per
// second at most. Rendered manifests are refetched only if they may differ.
function useFresh(place: Place, detail: Detail): void {
  const last = useRef(0);
  const before = useRef({ version: "", compared: "" });
  const { version } = detail;
  const status = detail.manifest?.status;
  const compared = [status?.sync?.revision, status?.sync?.status, status?.operationState?.phase].join(" ");
  useEffect(() => {
    if (before.current.version === "" || version === "") {
      before.current = { version, compared };
      return;
    }
    const wait = Math.max(0, 1_000 - (Date.now() - last.current));
    const timer = setTimeout(() => {
      const again = before.current.compared !== compared;
      before.current = { version, compared };
      last.current = Date.now();
      void queries.invalidateQueries({
        queryKey: applicationKeyOf(place),
        predicate: (query) => again || !isRendered(query.queryKey),
      });
    }, wait);
    return () => clearTimeout(timer);
  }, [place, version, compared]);
}

interface KnownProps {
  place: Place;
  detail: Detail;
  summary: Application | null;
  online: boolean;
}

function Known({ place, detail, summary, online }: KnownProps) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [denied, setDenied] = useState("");
  const rights = useRights(place, detail.manifest?.spec?.project || summary?.project || "default");
  const mayLogs = rights.may("logs");
  const mayRelease = hasReleases(detail.manifest);
  const tab = tabIDs.find((id) => id === search.tab && (id !== "logs" || mayLogs)) ?? "resources";
  const resource = readObject(search.resource);
  const tree = useTree(
    place,
    detail.manifest?.metadata?.uid ?? summary?.uid ?? "",
    online && (tab === "resources" || resource !== null),
  );
  useFreshResources(place, tree.nodes);
  const deleting = detail.manifest?.metadata?.deletionTimestamp !== undefined;
  const blocked = blockedBy({ place, detail, online, denied, deleting });
  const open = (object: ResourceName | null) =>
    void navigate({ search: (before) => ({ ...before, resource: object ? writeObject(object) : undefined }) });
  const select = (id: TabID) => void navigate({ search: { tab: id === "resources" ? undefined : id }, replace: true });
  // Until the runtime has responded, its last report is shown in the same place.
  const state = detail.manifest
    ? detail.manifest.status?.operationState
    : summary
      ? reportedOperation(summary)
      : undefined;
  const tabs: { id: TabID; label: string; content: ReactNode }[] = [
    {
      id: "resources",
      label: "Resources",
      content: (
        <Resources
          runtime={place.runtime}
          live={tree}
          online={online}
          onOpen={open}
          actionsOf={rights.known && rights.may("action") ? place : undefined}
        />
      ),
    },
    ...(mayRelease || tab === "releases"
      ? [
          {
            id: "releases" as const,
            label: "Releases",
            content: <Releases place={place} online={online} blocked={blocked} />,
          },
        ]
      : []),
    { id: "diff", label: "Diff", content: <Comparison place={place} online={online} /> },
    { id: "events", label: "Events", content: <Events place={place} online={online} /> },
    ...(mayLogs
      ? [{ id: "logs" as const, label: "Logs", content: <Logs place={place} online={online} object={null} /> }]
      : []),
    {
      id: "history",
      label: "History",
      content: (
        <History place={place} detail={detail} mayRollBack={rights.may("rollback")} online={online} blocked={blocked} />
      ),
    },
    { id: "details", label: "Details", content: <Details manifest={detail.manifest} summary={summary} /> },
  ];
  return (
    <Page
      title={place.name}
      crumbs={[{ label: "Applications", to: "/applications" }]}
      subtitle={`${place.namespace} · ${summary?.destinationNamespace || detail.manifest?.spec?.destination?.namespace || ""}`}
      actions={<Actions place={place} detail={detail} rights={rights} blocked={blocked} onDenied={setDenied} />}
    >
      {blocked !== "" && <Note tone={deleting ? "warn" : "off"}>{blocked}</Note>}
      {online && detail.state === "lost" && detail.error && (
        <Note tone="warn">The runtime does not respond, retrying: {explain(detail.error)}</Note>
      )}
      <Header place={place} detail={detail} summary={summary} />
      <Conditions detail={detail} summary={summary} />
      {state && <OperationPanel key={state.startedAt ?? ""} state={state} />}
      <Tabs label="Application" tabs={tabs} selected={tab} onSelect={select} />
      {resource && (
        <ResourceDialog
          key={writeObject(resource)}
          place={place}
          online={online}
          mayLogs={mayLogs}
          object={resource}
          followed={
            tree.state === "live" &&
            tree.nodes?.some(
              (node) => node.resourceVersion !== "" && writeObject(objectOf(node.ref)) === writeObject(resource),
            ) === true
          }
          onClose={() => open(null)}
        />
      )}
    </Page>
  );
}

interface Circumstances {
  place: Place;
  detail: Detail;
  online: boolean;
  denied: string;
  deleting: boolean;
}

// blockedBy is why nothing can be done now, or empty.
function blockedBy({ place, detail, online, denied, deleting }: Circumstances): string {
  if (!online) {
    return `The runtime ${place.runtime} is offline. Showing its last report. Actions are disabled until it reconnects.`;
  }
  if (deleting) return "The application is being deleted.";
  if (denied !== "") return `Permission denied: ${denied} Contact an admin of the account.`;
  if (!detail.manifest) return detail.state === "connecting" ? "" : "The runtime does not respond yet.";
  return "";
}

function Gone({ place, known }: { place: Place; known: boolean }) {
  return (
    <Empty
      title="Application not found"
      action={
        <Link to="/applications" className={buttonClass("primary")}>
          Go to the applications
        </Link>
      }
    >
      {known
        ? `The runtime ${place.runtime} has no application ${place.name} in the namespace ${place.namespace}. It may have been deleted.`
        : `There is no runtime ${place.runtime}.`}
    </Empty>
  );
}
