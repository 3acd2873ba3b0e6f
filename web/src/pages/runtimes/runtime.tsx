// One runtime: what is wrong with it, its components, Git Sources and clusters.

import { getRouteApi, Link } from "@tanstack/react-router";
import { useRuntimes } from "../../api/fleet";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { buttonClass } from "../../ui/button";
import { Empty, Facts, Failure, Loading, Page, Panel } from "../../ui/page";
import { Dot, Status } from "../../ui/status";
import { Tabs } from "../../ui/tabs";
import { Time } from "../../ui/time";
import { RuntimeActions } from "./actions";
import { ClustersTab } from "./clusters-tab";
import { ComponentsTab } from "./components-tab";
import { GitSourcesTab } from "./git-sources-tab";
import { RuntimeSync, RuntimeVersion } from "./list";
import { modeWord, typeWord } from "./model";
import "./runtimes.css";
import { StatusPanel } from "./status-panel";

const route = getRouteApi("/inside/runtimes/$runtime");
const crumbs = [{ label: "Runtimes", to: "/runtimes" as const }];
const tabs = ["components", "git-sources", "clusters"] as const;

export function RuntimePage() {
  const { runtime: name } = route.useParams();
  const { items, synced, error } = useRuntimes();
  const runtime = items.get(name);
  if (runtime) return <Known runtime={runtime} />;
  return (
    <Page title={name} crumbs={crumbs}>
      <Panel>
        {synced ? (
          <Empty
            title="Runtime not found"
            action={
              <Link to="/runtimes" className={buttonClass()}>
                Show all runtimes
              </Link>
            }
          >
            The account has no runtime with the name {name}. It may have been uninstalled.
          </Empty>
        ) : error ? (
          <Failure error={error} />
        ) : (
          <Loading lines={10} />
        )}
      </Panel>
    </Page>
  );
}

function Known({ runtime }: { runtime: Runtime }) {
  const { tab } = route.useSearch();
  const navigate = route.useNavigate();
  const selected = tabs.find((one) => one === tab) ?? "components";
  return (
    <Page
      title={runtime.name}
      crumbs={crumbs}
      subtitle={
        <span className="runtime-version">
          <Dot tone={runtime.online ? "good" : "bad"} label={runtime.online ? "online" : "offline"} />
          <span>{runtime.online ? "Online" : "Offline"}</span>
          {runtime.configurationRuntime && <Status tone="progress">Configuration runtime</Status>}
        </span>
      }
      actions={<RuntimeActions runtime={runtime} />}
    >
      <StatusPanel runtime={runtime} />
      <Panel title="About">
        <div className="about">
          <Facts
            items={[
              ["Cluster", runtime.cluster],
              ["Namespace", runtime.namespace],
              ["Type", typeWord(runtime)],
              ["Access mode", modeWord(runtime.accessMode)],
              ["Address", runtime.accessUrl && <code key="url">{runtime.accessUrl}</code>],
              ["Version", <RuntimeVersion key="version" runtime={runtime} />],
              ["Kubernetes", runtime.kubernetesVersion],
              ["Sync status", <RuntimeSync key="sync" runtime={runtime} />],
              ["Last seen", <Time key="seen" at={runtime.lastHeartbeatAt} />],
              ["Registered", <Time key="registered" at={runtime.registeredAt} />],
            ]}
          />
        </div>
      </Panel>
      <Tabs
        label="Runtime sections"
        selected={selected}
        onSelect={(id) => void navigate({ search: { tab: id }, replace: true, resetScroll: false })}
        tabs={[
          { id: "components", label: "Runtime Components", content: <ComponentsTab runtime={runtime} /> },
          { id: "git-sources", label: "Git Sources", content: <GitSourcesTab runtime={runtime} /> },
          { id: "clusters", label: "Managed Clusters", content: <ClustersTab runtime={runtime} /> },
        ]}
      />
    </Page>
  );
}
