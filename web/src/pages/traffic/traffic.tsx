// Git commit, application, Ingress, route and live requests on one screen.

import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";
import { OneRuntime } from "../../app/oneruntime";
import type { TrafficSearch } from "../../app/search";
import { Select } from "../../ui/field";
import { Figures } from "../../ui/figures";
import { Failure, Loading, Note, Page } from "../../ui/page";
import { Sparkline } from "../../ui/sparkline";
import { Tabs } from "../../ui/tabs";
import { Certificates } from "./certificates";
import { Chain } from "./chain";
import { Explain, type Question } from "./explain";
import { useTraffic } from "./live";
import { errorPart, partWord, rateWord, type TrafficState, timeWord } from "./model";
import { Refusals } from "./refusals";
import { Routes } from "./routes";
import "./traffic.css";

const route = getRouteApi("/inside/traffic");
type Tab = "routes" | "certificates" | "refusals";
const tabs: Tab[] = ["routes", "certificates", "refusals"];

export function TrafficPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const change = useCallback(
    (next: TrafficSearch) =>
      void navigate({ to: "/traffic", search: (before) => ({ ...before, ...next }), replace: true }),
    [navigate],
  );
  return (
    <OneRuntime
      title="Traffic"
      name={search.runtime}
      onChoose={(runtime) => change({ runtime, edge: undefined, route: undefined })}
      purpose="The traffic of a cluster is shown when a runtime with an edge is installed in it."
    >
      {({ name, online }, picker) => (
        <RuntimeTraffic key={name} name={name} online={online} picker={picker} search={search} change={change} />
      )}
    </OneRuntime>
  );
}

interface RuntimeTrafficProps {
  name: string;
  online: boolean;
  picker: React.ReactNode;
  search: TrafficSearch;
  change: (next: TrafficSearch) => void;
}

function RuntimeTraffic({ name, online, picker, search, change }: RuntimeTrafficProps) {
  const edge = search.edge ?? "";
  const { state, connection, error } = useTraffic(name, edge);
  const question: Question | undefined = search.url ? { url: search.url, method: search.method ?? "GET" } : undefined;
  const open = useCallback((key: string) => change({ route: key }), [change]);
  const shown = state?.rows.find((row) => row.key === search.route);
  const edges = state?.edges ?? [];
  return (
    <Page
      title="Traffic"
      subtitle="Routes of the edges, from the commit to the request."
      actions={
        <>
          {picker}
          {(edges.length > 1 || edge !== "") && (
            <Select
              label="Edge"
              hideLabel
              value={edge}
              onChange={(next) => change({ edge: next || undefined })}
              options={[
                { value: "", label: "All edges" },
                ...[...new Set([...edges.map((each) => each.name), ...(edge ? [edge] : [])])].map((value) => ({
                  value,
                  label: value,
                })),
              ]}
            />
          )}
        </>
      }
    >
      {!online && (
        <Note tone="warn">
          The runtime {name} is offline.{" "}
          {state ? "The data shown is stale." : "Its traffic is shown when it reconnects."}
        </Note>
      )}
      <Explain
        runtime={name}
        edge={edge}
        question={question}
        onAsk={(q) => change({ url: q?.url, method: q?.method })}
      />
      {state ? (
        <>
          <Summary state={state} old={connection === "lost"} />
          <Tabs<Tab>
            label="Traffic"
            selected={tabs.find((tab) => tab === search.tab) ?? "routes"}
            onSelect={(tab) => change({ tab })}
            tabs={[
              {
                id: "routes",
                label: "Routes",
                content: (
                  <Routes
                    runtime={name}
                    state={state}
                    query={search.query ?? ""}
                    onQuery={(query) => change({ query: query || undefined })}
                    onOpen={open}
                  />
                ),
              },
              {
                id: "certificates",
                label: `Certificates (${state.table?.certificates.length ?? 0})`,
                content: (
                  <Certificates
                    certificates={state.table?.certificates ?? []}
                    more={state.table?.moreCertificates ?? 0}
                  />
                ),
              },
              {
                id: "refusals",
                label: `Refusals (${state.table?.refusals.length ?? 0})`,
                content: state.table ? <Refusals runtime={name} table={state.table} /> : <Loading />,
              },
            ]}
          />
          <Chain runtime={name} row={shown} revisions={state.revisions} onClose={() => change({ route: undefined })} />
        </>
      ) : error ? (
        <Failure error={error} />
      ) : (
        <Loading lines={10} />
      )}
    </Page>
  );
}

/** Summary is all requests of the edges, and how the edges are. */
function Summary({ state, old }: { state: TrafficState; old: boolean }) {
  const total = state.total;
  const silent = state.edges.filter((each) => !each.ready);
  return (
    <div className="stack">
      {state.problem !== "" && <Note tone="warn">{state.problem}</Note>}
      {silent.map((each) => (
        <Note key={each.name} tone="warn">
          The edge {each.name} is not ready: {each.problem}
        </Note>
      ))}
      <Figures
        old={old}
        items={[
          {
            label: "Requests per second",
            value: <span data-testid="total-rate">{rateWord(total?.requestsPerSecond ?? 0)}</span>,
            line: (
              <Sparkline
                values={state.totalCourse.requests}
                width={110}
                label={`Requests per second, now ${rateWord(total?.requestsPerSecond ?? 0)}`}
              />
            ),
          },
          { label: "Errors", value: partWord(errorPart(total)), bad: errorPart(total) > 0 },
          { label: "p50 and p99", value: timeWord(total?.p50 ?? 0), note: timeWord(total?.p99 ?? 0) },
          {
            label: "Total requests",
            value: <span data-testid="total-requests">{Number(total?.requests ?? 0n).toLocaleString("en")}</span>,
            note: `${Number(state.unrouted?.requests ?? 0n).toLocaleString("en")} without a route`,
          },
          { label: "Edges", value: state.edges.length - silent.length, note: `of ${state.edges.length} ready` },
        ]}
      />
    </div>
  );
}
