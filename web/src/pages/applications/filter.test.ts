import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { type Application, ApplicationSchema } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { find, readChoice, sorted, writeList } from "./filter";

function app(name: string, rest: Partial<Application> = {}): Application {
  return create(ApplicationSchema, {
    runtime: "east",
    namespace: "slipway",
    name,
    health: "Healthy",
    sync: "Synced",
    destinationNamespace: "shop",
    ...(rest as object),
  });
}

const all = [
  app("web", { labels: { tier: "front", team: "a" } }),
  app("api", { health: "Degraded", labels: { tier: "back", team: "a" } }),
  app("jobs", { health: "Degraded", sync: "OutOfSync", runtime: "west", labels: { tier: "back", team: "b" } }),
];
const names = (rows: Application[]) => rows.map((row) => row.name);

test("values of one filter add up, filters narrow down", () => {
  expect(names(find(all, readChoice({ health: "Degraded,Healthy" })).rows)).toEqual(["web", "api", "jobs"]);
  expect(names(find(all, readChoice({ health: "Degraded", runtime: "west" })).rows)).toEqual(["jobs"]);
});

test("all labels must be there", () => {
  expect(names(find(all, readChoice({ label: "tier=back,team=a" })).rows)).toEqual(["api"]);
});

test("a count says what there would be with that value chosen", () => {
  const { counts } = find(all, readChoice({ health: "Degraded" }));
  expect(Object.fromEntries(counts.health)).toEqual({ Healthy: 1, Degraded: 2 });
  expect(Object.fromEntries(counts.runtime)).toEqual({ east: 1, west: 1 });
  expect(Object.fromEntries(find(all, readChoice({ label: "tier=back" })).counts.label)).toEqual({
    "tier=back": 2,
    "team=a": 1,
    "team=b": 1,
  });
});

test("each word of the text must be somewhere", () => {
  expect(names(find(all, readChoice({ query: "SHOP ap" })).rows)).toEqual(["api"]);
  expect(find(all, readChoice({ query: "none" })).rows).toEqual([]);
});

test("what needs somebody comes first, and equal ones keep their order", () => {
  expect(names(sorted(all, "health"))).toEqual(["api", "jobs", "web"]);
  expect(names(sorted(all, "sync"))).toEqual(["jobs", "api", "web"]);
  const late = app("late", { operationFinishedAt: timestampFromMs(9_000) });
  expect(names(sorted([...all, late], "changed"))).toEqual(["late", "api", "jobs", "web"]);
});

test("an empty choice is not in the address", () => {
  expect(writeList([])).toBeUndefined();
  expect(writeList(["a", "b"])).toBe("a,b");
});
