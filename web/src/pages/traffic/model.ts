// The traffic stream of a runtime as the page shows it.

import { durationMs, timestampDate } from "@bufbuild/protobuf/wkt";
import type {
  EdgeState,
  RevisionTraffic,
  RouteRef,
  TrafficApplication,
  TrafficNumbers,
  TrafficRoute,
  TrafficTable,
  WatchTrafficResponse,
} from "../../api/gen/slipway/runtime/v1/traffic_pb";

/** steps is how many are kept for sparklines. */
export const steps = 60;

/** Course is the last steps of a route. Times are in seconds. */
export interface Course {
  requests: number[];
  /** Share of requests with a 5xx response. */
  errors: number[];
  p50: number[];
  p99: number[];
}

export interface RouteRow {
  key: string;
  route: TrafficRoute;
  application: TrafficApplication | undefined;
  numbers: TrafficNumbers | undefined;
  course: Course | undefined;
}

export interface TrafficState {
  at: Date;
  stepSeconds: number;
  edges: EdgeState[];
  table: TrafficTable | undefined;
  rows: RouteRow[];
  total: TrafficNumbers | undefined;
  totalCourse: Course;
  unrouted: TrafficNumbers | undefined;
  /** Revisions of the releases that run. */
  revisions: RevisionTraffic[];
  problem: string;
}

/** refKey is the key of a route: the object and the position in it. */
export function refKey(ref: RouteRef | undefined): string {
  return JSON.stringify([ref?.kind, ref?.namespace, ref?.name, ref?.rule, ref?.path, ref?.variant]);
}

const nothing: Course = { requests: [], errors: [], p50: [], p99: [] };

function push(values: number[], value: number): number[] {
  const next = values.slice(values.length >= steps ? values.length - steps + 1 : 0);
  next.push(value);
  return next;
}

/** errorPart is the part of requests that failed, from 0 to 1. */
export function errorPart(numbers: TrafficNumbers | undefined): number {
  if (!numbers || numbers.requestsPerSecond <= 0) return 0;
  return numbers.errorsPerSecond / numbers.requestsPerSecond;
}

function grow(course: Course | undefined, numbers: TrafficNumbers | undefined): Course {
  const before = course ?? nothing;
  return {
    requests: push(before.requests, numbers?.requestsPerSecond ?? 0),
    errors: push(before.errors, errorPart(numbers)),
    p50: push(before.p50, numbers?.p50 ?? 0),
    p99: push(before.p99, numbers?.p99 ?? 0),
  };
}

/** advance takes one message. A table that is not in it is as before. */
export function advance(before: TrafficState | undefined, message: WatchTrafficResponse): TrafficState {
  const table = message.table ?? before?.table;
  const rest = {
    at: message.at ? timestampDate(message.at) : new Date(),
    stepSeconds: message.step ? durationMs(message.step) / 1_000 : 1,
    edges: message.edges,
    table,
    total: message.total,
    totalCourse: before ? grow(before.totalCourse, message.total) : nothing,
    unrouted: message.unrouted,
    revisions: message.revisions,
    problem: message.problem,
  };
  const numbers = new Map(message.traffic.map((each) => [each.route, each.numbers]));
  if (before && !message.table) {
    // Of thousands of routes few have requests: the others stay the same rows.
    const rows = before.rows.map((row, place) => {
      const now = numbers.get(place);
      return now || row.course ? { ...row, numbers: now, course: grow(row.course, now) } : row;
    });
    return { ...rest, rows };
  }
  const courses = new Map(before?.rows.map((row) => [row.key, row.course]));
  const rows = (table?.routes ?? []).map((route, place): RouteRow => {
    const key = refKey(route.ref);
    const now = numbers.get(place);
    const course = courses.get(key);
    // The first message is what was before: there is no step to it.
    return {
      key,
      route,
      application: applicationAt(table, route.application),
      numbers: now,
      // A route that never had a request has no course.
      course: !before ? now && nothing : now || course ? grow(course, now) : undefined,
    };
  });
  return { ...rest, rows };
}

/** applicationAt finds an application by its place, which begins with 1. */
export function applicationAt(table: TrafficTable | undefined, place: number): TrafficApplication | undefined {
  return place > 0 ? table?.applications[place - 1] : undefined;
}

/** revisionsOf returns the revisions of the releases that divide the requests of a route. */
export function revisionsOf(route: TrafficRoute, revisions: readonly RevisionTraffic[]): RevisionTraffic[] {
  return revisions.filter((each) =>
    route.backends.some((backend) => backend.release === each.release && backend.namespace === each.namespace),
  );
}

/** shareWord is the share of a revision, as a percentage of all weights of its release. */
export function shareWord(revision: RevisionTraffic, revisions: readonly RevisionTraffic[]): string {
  const total = revisions
    .filter((each) => each.namespace === revision.namespace && each.release === revision.release)
    .reduce((sum, each) => sum + each.weight, 0);
  return total === 0 ? "–" : partWord(revision.weight / total);
}

/** hostWord is the host of a route for people. */
export function hostWord(route: TrafficRoute): string {
  return route.host === "" ? "any host" : route.host;
}

/** pathWord is the path of a route for people. */
export function pathWord(route: TrafficRoute): string {
  if (route.fallback) return "paths without another route";
  switch (route.pathType) {
    case "":
      return "/*";
    case "exact":
      return route.path;
    case "regexp":
      return `~ ${route.path}`;
    case "characterPrefix":
      return `${route.path}*`;
    default:
      return route.path.endsWith("/") ? `${route.path}*` : `${route.path}/*`;
  }
}

/** subject is the first line of the message of a commit. */
export function subject(message: string): string {
  return message.split("\n", 1)[0] ?? "";
}

/** shortRevision is a commit as Git shortens it; other revisions stay. */
export function shortRevision(revision: string): string {
  return /^[0-9a-f]{40}$/.test(revision) ? revision.slice(0, 8) : revision;
}

export type SortColumn = "route" | "ingress" | "application" | "commit" | "requests" | "errors" | "p50" | "p99";
export interface Sort {
  column: SortColumn;
  descending: boolean;
}

const value: Record<SortColumn, (row: RouteRow) => string | number> = {
  route: (row) => `${row.route.host} ${row.route.path}`,
  ingress: (row) => `${row.route.ref?.namespace}/${row.route.ref?.name}`,
  application: (row) => row.application?.ref?.name ?? "",
  commit: (row) => Number(row.application?.commitAt?.seconds ?? row.application?.deployedAt?.seconds ?? 0n),
  requests: (row) => row.numbers?.requestsPerSecond ?? 0,
  errors: (row) => errorPart(row.numbers),
  p50: (row) => row.numbers?.p50 ?? 0,
  p99: (row) => row.numbers?.p99 ?? 0,
};

const words = new Intl.Collator("en", { numeric: true });

/** sorted orders rows; rows that are alike keep the order of the edge. */
export function sorted(rows: RouteRow[], sort: Sort): RouteRow[] {
  const of = value[sort.column];
  const direction = sort.descending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const left = of(a);
    const right = of(b);
    if (typeof left === "number" && typeof right === "number") return (left - right) * direction;
    return words.compare(String(left), String(right)) * direction;
  });
}

/** matching keeps rows that have each word of a text somewhere. */
export function matching(rows: RouteRow[], text: string): RouteRow[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return rows;
  return rows.filter((row) => {
    const { route, application } = row;
    const all = [
      route.host,
      route.path,
      `${route.ref?.namespace}/${route.ref?.name}`,
      application?.ref?.name,
      application?.revision,
      application?.commitMessage,
      application?.commitAuthor,
      ...route.backends.map((backend) => `${backend.namespace}/${backend.service}:${backend.port}`),
      ...route.conditions,
    ]
      .join(" ")
      .toLowerCase();
    return wanted.every((word) => all.includes(word));
  });
}

/** rateWord writes requests per second. */
export function rateWord(rate: number): string {
  if (rate === 0) return "0";
  if (rate < 1) return rate.toFixed(2);
  if (rate < 100) return rate.toFixed(1);
  return Math.round(rate).toLocaleString("en");
}

/** timeWord writes seconds. */
export function timeWord(seconds: number): string {
  if (seconds <= 0) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.1) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(2)} s`;
}

/** partWord writes a part of 1 as a percentage. */
export function partWord(part: number): string {
  if (part === 0) return "0 %";
  const percent = part * 100;
  if (percent < 0.1) return "< 0.1 %";
  return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** daysLeft is how many whole days there are until a moment; negative when it is over. */
export function daysLeft(until: Date, now: number): number {
  return Math.floor((until.getTime() - now) / 86_400_000);
}
