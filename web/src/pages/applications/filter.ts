// Which applications are shown, and how many there would be with one choice more.
// Everything here is made for thousands of applications and each key stroke.

import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import type { ApplicationsSearch } from "../../app/search";

export const facets = ["health", "sync", "runtime", "cluster", "namespace", "label"] as const;
export type Facet = (typeof facets)[number];

export interface Choice {
  query: string;
  chosen: Record<Facet, string[]>;
}

/** readList and writeList are several values in one parameter of the address. */
export function readList(value: string | undefined): string[] {
  return value ? value.split(",").filter((each) => each !== "") : [];
}
export function writeList(values: string[]): string | undefined {
  return values.length > 0 ? values.join(",") : undefined;
}

/** readChoice parses the filters of a URL. */
export function readChoice(search: ApplicationsSearch): Choice {
  const chosen = {} as Record<Facet, string[]>;
  for (const facet of facets) chosen[facet] = readList(search[facet]);
  return { query: search.query ?? "", chosen };
}

/** isChosen is true when something is chosen. */
export function isChosen(choice: Choice): boolean {
  return choice.query !== "" || facets.some((facet) => choice.chosen[facet].length > 0);
}

/** placeOf is the namespace that people think of: where the objects go. */
export function placeOf(application: Application): string {
  return application.destinationNamespace || application.namespace;
}

/** clusterOf is the cluster as people call it: the runtime's own has no name of its own. */
export function clusterOf(cluster: string | undefined): string {
  return !cluster || cluster === "https://kubernetes.default.svc" ? "in-cluster" : cluster;
}

/** valuesOf is what an application has of a facet. */
export function valuesOf(application: Application, facet: Facet): string[] {
  switch (facet) {
    case "health":
      return [application.health || "Unknown"];
    case "sync":
      return [application.sync || "Unknown"];
    case "runtime":
      return [application.runtime];
    case "cluster":
      return [clusterOf(application.cluster)];
    case "namespace":
      return [placeOf(application)];
    case "label":
      return labelsOf(application);
  }
}

// What is made of an application stays as long as the application: each change
// brings a new one.
const labels = new WeakMap<Application, string[]>();
const texts = new WeakMap<Application, string>();

function labelsOf(application: Application): string[] {
  let made = labels.get(application);
  if (!made) {
    made = Object.entries(application.labels).map(([key, value]) => `${key}=${value}`);
    labels.set(application, made);
  }
  return made;
}

function textOf(application: Application): string {
  let made = texts.get(application);
  if (made === undefined) {
    const { name, namespace, project, path, repoUrls, revision, owner } = application;
    made = [name, namespace, placeOf(application), project, path, ...repoUrls, revision, owner]
      .join("\n")
      .toLowerCase();
    texts.set(application, made);
  }
  return made;
}

/** Counts is the number of applications per value of a facet, counted lazily. */
export type Counts = Readonly<Record<Facet, Map<string, number>>>;

export interface Found {
  rows: Application[];
  /** How many there are for each value, with all other choices as they are. */
  counts: Counts;
}

/** find chooses in one pass. Labels must all be there; of the others one is enough. */
export function find(applications: Iterable<Application>, choice: Choice): Found {
  const wanted = facets
    .map((facet) => ({ facet, values: new Set(choice.chosen[facet]) }))
    .filter(({ values }) => values.size > 0);
  const words = choice.query.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: Application[] = [];
  // Those that one facet alone leaves out, by that facet.
  const beside = new Map<Facet, Application[]>();
  for (const application of applications) {
    if (words.length > 0) {
      const text = textOf(application);
      if (!words.every((word) => text.includes(word))) continue;
    }
    let outside: Facet | undefined;
    let misses = 0;
    for (const { facet, values } of wanted) {
      if (fits(application, facet, values)) continue;
      outside = facet;
      if (++misses > 1) break;
    }
    if (misses === 0) rows.push(application);
    // Labels narrow down, so what one of them leaves out counts for no other label.
    else if (misses === 1 && outside && outside !== "label") {
      const others = beside.get(outside);
      if (others) others.push(application);
      else beside.set(outside, [application]);
    }
  }
  return { rows, counts: countsOf(rows, beside) };
}

function countsOf(rows: Application[], beside: Map<Facet, Application[]>): Counts {
  const made = new Map<Facet, Map<string, number>>();
  const count = (facet: Facet): Map<string, number> => {
    let counts = made.get(facet);
    if (!counts) {
      counts = new Map();
      made.set(facet, counts);
      for (const list of [rows, beside.get(facet) ?? []]) {
        for (const application of list) {
          for (const value of valuesOf(application, facet)) counts.set(value, (counts.get(value) ?? 0) + 1);
        }
      }
    }
    return counts;
  };
  const counts = {};
  for (const facet of facets) Object.defineProperty(counts, facet, { get: () => count(facet), enumerable: true });
  return counts as Counts;
}

function fits(application: Application, facet: Facet, wanted: Set<string>): boolean {
  const values = valuesOf(application, facet);
  if (facet !== "label") return wanted.has(values[0] as string);
  let found = 0;
  for (const value of values) if (wanted.has(value)) found++;
  return found === wanted.size;
}

export const sorts = ["name", "health", "sync", "runtime", "changed"] as const;
export type Sort = (typeof sorts)[number];

// States that need attention come first.
const healthRank: Record<string, number> = {
  Degraded: 0,
  Missing: 1,
  Unknown: 2,
  Progressing: 3,
  Suspended: 4,
  Healthy: 5,
};
const syncRank: Record<string, number> = { OutOfSync: 0, Unknown: 1, Syncing: 2, Synced: 3 };

/** rankOf orders values of health and sync as people look for them. */
export function rankOf(facet: Facet, value: string): number {
  if (facet === "health") return healthRank[value] ?? 2;
  if (facet === "sync") return syncRank[value] ?? 1;
  return 0;
}

function text(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function byName(a: Application, b: Application): number {
  return text(a.name, b.name) || text(a.namespace, b.namespace) || text(a.runtime, b.runtime);
}

function changedAt(application: Application): number {
  return application.operationFinishedAt ? timestampMs(application.operationFinishedAt) : 0;
}

/** sorted is a sorted copy. Equal ones are sorted by name, so that the order never jumps. */
export function sorted(rows: Application[], by: Sort): Application[] {
  const compare: Record<Sort, (a: Application, b: Application) => number> = {
    name: byName,
    health: (a, b) => rankOf("health", a.health) - rankOf("health", b.health) || byName(a, b),
    sync: (a, b) => rankOf("sync", a.sync) - rankOf("sync", b.sync) || byName(a, b),
    runtime: (a, b) => text(a.runtime, b.runtime) || byName(a, b),
    changed: (a, b) => changedAt(b) - changedAt(a) || byName(a, b),
  };
  return [...rows].sort(compare[by]);
}
