// What of the history is shown.

import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HistorySearch } from "../../app/search";

export type HistoryTab = "deployments" | "dora" | "traffic";
export const historyTabs: HistoryTab[] = ["deployments", "dora", "traffic"];

export interface HistoryFilter {
  /** Empty for all. */
  runtime: string;
  /** A name, or namespace/name, as slipway history has it; empty for all. */
  app: string;
  span: string;
}

const hour = 3_600_000;
const day = 24 * hour;

const spans = [
  { value: "hour", label: "The last hour", length: hour },
  { value: "day", label: "The last day", length: day },
  { value: "week", label: "The last 7 days", length: 7 * day },
  { value: "month", label: "The last 30 days", length: 30 * day },
  { value: "quarter", label: "The last 90 days", length: 90 * day },
  { value: "year", label: "The last 365 days", length: 365 * day },
];

// Traffic is kept for a month, and deployments for more than a year, unless the platform is configured otherwise.
const offered: Record<HistoryTab, { spans: string[]; preset: string }> = {
  deployments: { spans: ["day", "week", "month", "quarter", "year"], preset: "month" },
  dora: { spans: ["day", "week", "month", "quarter", "year"], preset: "month" },
  traffic: { spans: ["hour", "day", "week", "month", "quarter"], preset: "week" },
};

/** spansOf is the spans of a tab. */
export const spansOf = (tab: HistoryTab) => spans.filter(({ value }) => offered[tab].spans.includes(value));

/** lengthOf is the length of a span in milliseconds. */
export const lengthOf = (span: string): number => spans.find(({ value }) => value === span)?.length ?? 0;

/** readTab and readFilter read the address. A span that the tab does not have is its usual one. */
export const readTab = (search: HistorySearch): HistoryTab =>
  historyTabs.find((tab) => tab === search.tab) ?? "deployments";

export function readFilter(search: HistorySearch, tab: HistoryTab): HistoryFilter {
  const { spans, preset } = offered[tab];
  return {
    runtime: search.runtime ?? "",
    app: search.app?.trim() ?? "",
    span: search.span && spans.includes(search.span) ? search.span : preset,
  };
}

export interface HistoryRequest {
  runtime: string;
  namespace: string;
  name: string;
  since: Timestamp;
}

/** requestOf returns the request of a filter. */
export function requestOf(filter: HistoryFilter, now: number): HistoryRequest {
  const [first = "", ...rest] = filter.app.split("/");
  const [namespace, name] = rest.length > 0 ? [first, rest.join("/")] : ["", first];
  return { runtime: filter.runtime, namespace, name, since: timestampFromMs(now - lengthOf(filter.span)) };
}
