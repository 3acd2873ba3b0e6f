// The runtimes of the account, as a list or as they hang together.

import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useRuntimes } from "../../api/fleet";
import { useSession } from "../../app/session";
import { buttonClass } from "../../ui/button";
import { SearchField, Select } from "../../ui/field";
import { Empty, Failure, Loading, Page, Panel } from "../../ui/page";
import { Tabs } from "../../ui/tabs";
import { FirstRun } from "../settings/first-run";
import { RuntimeList } from "./list";
import { chooseRuntimes, type SortKey } from "./model";
import "./runtimes.css";
import { TopologyView } from "./topology";

const route = getRouteApi("/inside/runtimes");

const sorts: { value: SortKey; label: string }[] = [
  { value: "name", label: "Sort by name" },
  { value: "status", label: "Sort by status" },
  { value: "cluster", label: "Sort by cluster" },
  { value: "version", label: "Sort by version" },
  { value: "seen", label: "Sort by last seen" },
];

export function RuntimesPage() {
  const { isAdmin } = useSession();
  const { view, query = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const [sort, setSort] = useState<SortKey>("name");
  const { items, synced, error } = useRuntimes();
  const shown = useMemo(() => chooseRuntimes(items.values(), query, sort), [items, query, sort]);
  const add = isAdmin && (
    <Link to="/install" className={buttonClass("primary")}>
      Add runtime
    </Link>
  );

  let content = <Loading lines={6} />;
  if (synced && items.size === 0) {
    content = (
      <Panel>
        <FirstRun />
      </Panel>
    );
  } else if (synced) {
    const none = (
      <Empty title="No matching runtimes">
        Nothing has “{query}” in its name, cluster, namespace, version or access mode.
      </Empty>
    );
    const selected = view === "topology" ? "topology" : "list";
    content = (
      <>
        <div className="runtimes-tools">
          <SearchField
            label="Search runtimes"
            value={query}
            onChange={(text) =>
              void navigate({ search: (old) => ({ ...old, query: text || undefined }), replace: true })
            }
          />
          <Select
            label="Order"
            hideLabel
            value={sort}
            onChange={(value) => setSort(sorts.find((one) => one.value === value)?.value ?? "name")}
            options={sorts}
          />
        </div>
        <p className="visually-hidden" role="status">
          {shown.length} of {items.size} runtimes
        </p>
        <Tabs
          label="Runtime view"
          selected={selected}
          onSelect={(id) =>
            void navigate({ search: (old) => ({ ...old, view: id === "topology" ? id : undefined }), replace: true })
          }
          tabs={[
            {
              id: "list",
              label: "List",
              content: <Panel flush>{shown.length === 0 ? none : <RuntimeList runtimes={shown} />}</Panel>,
            },
            {
              id: "topology",
              label: "Topology",
              content: <Panel>{shown.length === 0 ? none : <TopologyView runtimes={shown} />}</Panel>,
            },
          ]}
        />
      </>
    );
  } else if (error) {
    content = (
      <Panel>
        <Failure error={error} />
      </Panel>
    );
  }
  return (
    <Page
      title="Runtimes"
      subtitle="Each runtime deploys from Git to its cluster and to the clusters it manages."
      actions={add}
    >
      {content}
    </Page>
  );
}
