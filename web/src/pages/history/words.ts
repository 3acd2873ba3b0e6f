// The words of the history, which are those of slipway history.

import { type Duration, durationMs, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { TrafficSeries } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { type Deployment, type Dora, DoraGroup } from "../../api/gen/slipway/platform/v1/history_pb";
import type { Tone } from "../../ui/status";

export interface Result {
  label: string;
  tone: Tone;
}

/** resultOf is what became of a deployment. */
export function resultOf(deployment: Deployment): Result {
  if (!deployment.succeeded) return { label: "Failed", tone: "bad" };
  if (deployment.rolledBackAt) return { label: "Rolled back", tone: "warn" };
  return deployment.rollback ? { label: "Rollback", tone: "off" } : { label: "Succeeded", tone: "good" };
}

const units: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** lengthWord writes a length of time with its two largest units. One that clocks make negative is zero. */
export function lengthWord(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1_000));
  const at = units.findIndex(([, size]) => seconds >= size);
  const first = units[at];
  if (!first) return "0 s";
  const second = units[at + 1];
  const rest = second ? Math.floor((seconds % first[1]) / second[1]) : 0;
  const begin = `${Math.floor(seconds / first[1])} ${first[0]}`;
  return second && rest > 0 ? `${begin} ${rest} ${second[0]}` : begin;
}

/** durationWord is lengthWord for what may be unknown. */
export const durationWord = (length: Duration | undefined): string => (length ? lengthWord(durationMs(length)) : "–");

/** stepWord is the length of a bar of traffic: minutes or hours. */
export function stepWord(step: Duration | undefined): string {
  const total = (step ? durationMs(step) : 0) / 60_000;
  const [number, unit] = total < 60 ? [total, "minute"] : [total / 60, "hour"];
  return number === 1 ? unit : `${number} ${unit}s`;
}

/** betweenWord is the time between two moments. */
export const betweenWord = (begin: Timestamp | undefined, end: Timestamp | undefined): string =>
  begin && end ? lengthWord(timestampMs(end) - timestampMs(begin)) : "–";

/** initiatorWord is who deployed. */
export const initiatorWord = (deployment: Deployment): string =>
  deployment.automated ? "the sync policy" : deployment.initiator || "–";

export type Grouping = "application" | "project" | "runtime";
export const groupings: { value: Grouping; label: string; group: DoraGroup }[] = [
  { value: "application", label: "By application", group: DoraGroup.APPLICATION },
  { value: "project", label: "By project", group: DoraGroup.PROJECT },
  { value: "runtime", label: "By runtime", group: DoraGroup.RUNTIME },
];

/** readGrouping reads the address, and groupOf is what the platform is asked for. */
export const readGrouping = (by: string | undefined): Grouping =>
  groupings.find(({ value }) => value === by)?.value ?? "application";
export const groupOf = (by: Grouping): DoraGroup =>
  groupings.find(({ value }) => value === by)?.group ?? DoraGroup.APPLICATION;

/** groupKey is the key of a group. */
export const groupKey = (group: Dora): string =>
  JSON.stringify([group.runtime, group.project, group.namespace, group.name]);

/** perDayWord writes a frequency. */
export const perDayWord = (rate: number): string => (rate >= 10 ? rate.toFixed(0) : rate.toFixed(2));

/** seriesWord names the object of a series. Order matters: the others and requests without a route have no name. */
export function seriesWord(series: TrafficSeries | undefined): string {
  if (series?.others) return "others";
  if (!series?.name) return "without a route";
  return `${series.kind} ${series.namespace}/${series.name}`;
}

/** seriesKey is the key of a series. */
export const seriesKey = (series: TrafficSeries | undefined): string =>
  JSON.stringify([series?.kind, series?.namespace, series?.name, series?.host, series?.others]);

const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const minutes = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/** dayWord writes a day, which is one in UTC, and minuteWord a moment in the browser's time zone. */
export const dayWord = (at: Timestamp | undefined): string => (at ? days.format(timestampMs(at)) : "");
export const minuteWord = (milliseconds: number): string => minutes.format(milliseconds);
