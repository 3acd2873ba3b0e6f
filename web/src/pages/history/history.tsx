// What the platform keeps of the past: deployments, the figures of them, and traffic.

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { isDenied } from "../../api/errors";
import { useRuntimes } from "../../api/fleet";
import type { HistorySearch } from "../../app/search";
import { buttonClass } from "../../ui/button";
import { Select, TextField } from "../../ui/field";
import { Empty, Failure, Loading, Page } from "../../ui/page";
import { useSettled } from "../../ui/settled";
import { Tabs } from "../../ui/tabs";
import { Deployments } from "./deployments";
import { DoraFigures } from "./dora";
import { type HistoryTab, readFilter, readTab, spansOf } from "./filter";
import { PastTraffic } from "./traffic";
import { readGrouping } from "./words";
import "./history.css";

const route = getRouteApi("/inside/history");

export function HistoryPage() {
  const runtimes = useRuntimes();
  const names = useMemo(() => [...runtimes.items.keys()].toSorted((a, b) => a.localeCompare(b)), [runtimes.items]);
  if (!runtimes.synced) {
    return (
      <Page title="History">
        {runtimes.error && isDenied(runtimes.error) ? <Failure error={runtimes.error} /> : <Loading lines={8} />}
      </Page>
    );
  }
  if (names.length === 0) {
    return (
      <Page title="History">
        <Empty
          title="No runtimes"
          action={
            <Link to="/install" className={buttonClass("primary")}>
              Install a runtime
            </Link>
          }
        >
          Deployments and traffic are kept as soon as a runtime reports them.
        </Empty>
      </Page>
    );
  }
  return <Past names={names} />;
}

function Past({ names }: { names: string[] }) {
  const search = route.useSearch();
  const navigate = useNavigate();
  const change = useCallback(
    (next: HistorySearch) =>
      void navigate({ to: "/history", search: (before) => ({ ...before, ...next }), replace: true }),
    [navigate],
  );
  const tab = readTab(search);
  // Nothing is requested for each key stroke.
  const app = useSettled(search.app, 350);
  const filter = useMemo(() => readFilter({ ...search, app }, tab), [search, app, tab]);
  // Hosts of two runtimes may be the same, so that traffic is always that of one.
  const runtime = search.runtime ?? (tab === "traffic" ? names[0] : undefined) ?? "";
  const clear = () => change({ runtime: undefined, app: undefined, span: undefined });
  const by = readGrouping(search.by);
  return (
    <Page title="History" subtitle="Past deployments and traffic, as the platform keeps them.">
      <search className="history-filters" aria-label="Filters">
        <Select
          label="Runtime"
          value={runtime}
          onChange={(next) => change({ runtime: next || undefined })}
          options={[
            ...(tab === "traffic" ? [] : [{ value: "", label: "All runtimes" }]),
            ...[...new Set([...names, ...(runtime ? [runtime] : [])])].map((value) => ({ value, label: value })),
          ]}
        />
        <TextField
          label="Application"
          value={search.app ?? ""}
          onChange={(next) => change({ app: next || undefined })}
          placeholder="Full name, or namespace/name"
        />
        <Select
          label="When"
          value={filter.span}
          onChange={(span) => change({ span })}
          options={spansOf(tab).map(({ value, label }) => ({ value, label }))}
        />
      </search>
      <Tabs<HistoryTab>
        label="History"
        selected={tab}
        onSelect={(next) => change({ tab: next })}
        tabs={[
          {
            id: "deployments",
            label: "Deployments",
            content: <Deployments key={JSON.stringify(filter)} filter={filter} onClear={clear} />,
          },
          {
            id: "dora",
            label: "DORA figures",
            content: <DoraFigures filter={filter} by={by} onGroup={(next) => change({ by: next })} />,
          },
          {
            id: "traffic",
            label: "Traffic",
            content: <PastTraffic filter={{ ...filter, runtime }} />,
          },
        ]}
      />
    </Page>
  );
}
