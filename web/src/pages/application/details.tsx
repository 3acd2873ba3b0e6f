import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { ExternalLink } from "../../ui/button";
import { Empty, Facts, Note, Panel } from "../../ui/page";
import { Time } from "../../ui/time";
import { clusterOf } from "../applications/filter";
import type { ApplicationManifest, Source } from "./manifest";
import { safeLink, sourcesOf } from "./manifest";
import { toDate } from "./phase";

/** Address is a text that may be an address of the web. */
function Address({ text }: { text: string | undefined }) {
  const link = safeLink(text);
  return link ? <ExternalLink href={link}>{text}</ExternalLink> : <span>{text}</span>;
}

function sourceFacts(source: Source, type: string | undefined): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [["Repository", <Address key="repository" text={source.repoURL} />]];
  if (source.chart) facts.push(["Chart", source.chart]);
  if (source.path) facts.push(["Path", source.path]);
  facts.push(["Target revision", source.targetRevision || "HEAD"]);
  if (source.ref) facts.push(["Ref", `$${source.ref}`]);
  if (type) facts.push(["Type", type]);
  return facts;
}

/** Details shows the spec of the application. */
export function Details({ manifest, summary }: { manifest: ApplicationManifest | null; summary: Application | null }) {
  if (!manifest) return summary ? <SummaryDetails summary={summary} /> : <Empty title="No data yet" />;
  const { spec = {}, status = {}, metadata = {} } = manifest;
  const types = status.sourceTypes ?? [status.sourceType ?? ""];
  const urls = status.summary?.externalURLs ?? [];
  return (
    <div className="details">
      {sourcesOf(manifest).map((source, at) => (
        <Panel
          key={`${source.repoURL} ${source.path} ${source.chart} ${source.ref}`}
          title={source.name ? `Source ${source.name}` : at === 0 ? "Source" : `Source ${at + 1}`}
        >
          <Facts items={sourceFacts(source, types[at])} />
        </Panel>
      ))}
      <Panel title="Destination">
        <Facts
          items={[
            ["Cluster", clusterOf(spec.destination?.name || spec.destination?.server)],
            ["Namespace", spec.destination?.namespace],
            ["Project", spec.project || "default"],
          ]}
        />
      </Panel>
      <Panel title="Sync policy">
        <Facts items={policyFacts(manifest)} />
      </Panel>
      <Panel title="URLs and images">
        <Facts
          items={[
            [
              "Addresses",
              urls.length > 0 ? (
                <List key="urls" items={urls.map((url) => [url, <Address key={url} text={url} />])} />
              ) : (
                ""
              ),
            ],
            ["Images", <List key="images" items={(status.summary?.images ?? []).map((image) => [image, image])} />],
            [
              "Traffic",
              summary ? (
                <Link key="traffic" to="/traffic" search={{ runtime: summary.runtime }}>
                  Routes of this runtime
                </Link>
              ) : (
                ""
              ),
            ],
          ]}
        />
      </Panel>
      <Panel title="About">
        <Facts
          items={[
            ["Made", <Time key="made" at={toDate(metadata.creationTimestamp)} />],
            ["Made by", metadata.ownerReferences?.map((owner) => `${owner.kind} ${owner.name}`).join(", ")],
            ["Compared", <Time key="compared" at={toDate(status.reconciledAt)} />],
            [
              "Labels",
              <List
                key="labels"
                items={Object.entries(metadata.labels ?? {}).map(([key, value]) => [key, `${key}=${value}`])}
              />,
            ],
            ...(spec.info ?? []).map((info): [string, ReactNode] => [
              info.name ?? "",
              <Address key={info.name} text={info.value} />,
            ]),
          ]}
        />
      </Panel>
    </div>
  );
}

function policyFacts(manifest: ApplicationManifest): [string, ReactNode][] {
  const policy = manifest.spec?.syncPolicy;
  const automated = policy?.automated;
  const on = (value: boolean | undefined) => (value ? "On" : "Off");
  return [
    ["Automated", automated ? (automated.enabled === false ? "Off (enabled: false)" : "On") : "Off"],
    ["Prune", automated ? on(automated.prune) : ""],
    ["Self heal", automated ? on(automated.selfHeal) : ""],
    ["Options", <List key="options" items={(policy?.syncOptions ?? []).map((option) => [option, option])} />],
    ["Retries", policy?.retry?.limit === undefined ? "" : String(policy.retry.limit)],
    [
      "Ignored differences",
      <List
        key="ignored"
        items={(manifest.spec?.ignoreDifferences ?? []).map((each) => {
          const text = [each.kind, each.name].filter(Boolean).join(" ");
          return [text, text];
        })}
      />,
    ],
  ];
}

function List({ items }: { items: [string, ReactNode][] }) {
  if (items.length === 0) return <>–</>;
  return (
    <ul className="plain">
      {items.map(([key, item]) => (
        <li key={key}>{item}</li>
      ))}
    </ul>
  );
}

function SummaryDetails({ summary }: { summary: Application }) {
  return (
    <div className="stack">
      <Note tone="off">Showing the runtime's last report. Details are shown when it reconnects.</Note>
      <Panel title="Application">
        <Facts
          items={[
            ["Repository", summary.repoUrls.join(", ")],
            ["Path", summary.path],
            ["Target revision", summary.targetRevision],
            ["Cluster", clusterOf(summary.cluster)],
            ["Namespace", summary.destinationNamespace],
            ["Project", summary.project],
            ["Made by", summary.owner],
          ]}
        />
      </Panel>
    </div>
  );
}
