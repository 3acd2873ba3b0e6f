import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  RevisionTrafficSchema,
  TrafficRouteSchema,
  WatchTrafficResponseSchema,
} from "../../api/gen/slipway/runtime/v1/traffic_pb";
import {
  advance,
  daysLeft,
  matching,
  partWord,
  pathWord,
  rateWord,
  revisionsOf,
  shareWord,
  sorted,
  steps,
  timeWord,
} from "./model";

const route = (name: string, path: string, application = 0) => ({
  ref: { kind: "Ingress", namespace: "shop", name, rule: 0, path: 0, variant: "" },
  host: "shop.example.com",
  path,
  pathType: "prefix",
  application,
  backends: [{ namespace: "shop", service: name, port: 80 }],
});

const first = create(WatchTrafficResponseSchema, {
  table: {
    routes: [route("cart", "/cart", 1), route("all", "/")],
    applications: [{ ref: { namespace: "argocd", name: "shop" }, commitMessage: "Sell boats\n\nAnd oars." }],
  },
  traffic: [{ route: 0, numbers: { requests: 3n } }],
});
const rate = (place: number, requestsPerSecond: number, errorsPerSecond: number) =>
  create(WatchTrafficResponseSchema, { traffic: [{ route: place, numbers: { requestsPerSecond, errorsPerSecond } }] });

describe("advance", () => {
  it("keeps the table and the course of a route", () => {
    let state = advance(undefined, first);
    state = advance(state, rate(0, 10, 1));
    expect(state.rows.map((row) => row.route.path)).toEqual(["/cart", "/"]);
    expect(state.rows[0]?.course?.requests).toEqual([10]);
    expect(state.rows[0]?.course?.errors).toEqual([0.1]);
    expect(state.rows[0]?.application?.ref?.name).toBe("shop");
    expect(state.rows[1]?.course).toBeUndefined();
  });

  it("follows a route to another place of the table", () => {
    let state = advance(advance(undefined, first), rate(0, 10, 0));
    state = advance(
      state,
      create(WatchTrafficResponseSchema, {
        table: { routes: [route("new", "/new"), route("cart", "/cart")] },
        traffic: [{ route: 1, numbers: { requestsPerSecond: 20 } }],
      }),
    );
    expect(state.rows[1]?.course?.requests).toEqual([10, 20]);
    expect(state.rows[0]?.course).toBeUndefined();
  });

  it("keeps no more than the last steps", () => {
    let state = advance(undefined, first);
    for (let i = 0; i < 2 * steps; i++) state = advance(state, rate(0, i, 0));
    expect(state.rows[0]?.course?.requests).toHaveLength(steps);
    expect(state.rows[0]?.course?.requests.at(-1)).toBe(2 * steps - 1);
  });
});

describe("rows", () => {
  const rows = advance(advance(undefined, first), rate(1, 5, 0)).rows;
  it("are found by what is in them", () => {
    expect(matching(rows, "BOATS shop").map((row) => row.route.path)).toEqual(["/cart"]);
    expect(matching(rows, "shop/all:80").map((row) => row.route.path)).toEqual(["/"]);
    expect(matching(rows, "nowhere")).toEqual([]);
  });
  it("are sorted", () => {
    expect(sorted(rows, { column: "requests", descending: true }).map((row) => row.route.path)).toEqual(["/", "/cart"]);
    expect(sorted(rows, { column: "application", descending: false }).map((row) => row.route.path)).toEqual([
      "/",
      "/cart",
    ]);
  });
  it("say their path", () => {
    const [cart, all] = rows;
    expect(cart && pathWord(cart.route)).toBe("/cart/*");
    expect(all && pathWord(all.route)).toBe("/*");
  });
});

describe("words", () => {
  it("are short", () => {
    expect([0, 0.25, 7, 1234].map(rateWord)).toEqual(["0", "0.25", "7.0", "1,234"]);
    expect([0, 0.0004, 0.0123, 0.25, 2].map(timeWord)).toEqual(["–", "400 µs", "12.3 ms", "250 ms", "2.00 s"]);
    expect([0, 0.0002, 0.05, 0.5].map(partWord)).toEqual(["0 %", "< 0.1 %", "5.0 %", "50 %"]);
    expect(daysLeft(new Date(86_400_000 * 3), 0)).toBe(3);
    expect(daysLeft(new Date(-1), 0)).toBe(-1);
  });
});

describe("revisionsOf", () => {
  const revision = (namespace: string, release: string, name: string, weight: number) =>
    create(RevisionTrafficSchema, { namespace, release, revision: name, weight });
  const all = [
    revision("shop", "web", "stable", 3),
    revision("shop", "web", "canary", 1),
    revision("other", "web", "stable", 1),
  ];

  it("finds the releases of the backends of a route", () => {
    const released = create(TrafficRouteSchema, { backends: [{ namespace: "shop", service: "web", release: "web" }] });
    expect(revisionsOf(released, all).map((each) => each.revision)).toEqual(["stable", "canary"]);
    expect(revisionsOf(create(TrafficRouteSchema, route("cart", "/")), all)).toEqual([]);
  });

  it("writes shares of the weights of a release", () => {
    expect(all.map((each) => shareWord(each, all))).toEqual(["75 %", "25 %", "100 %"]);
  });
});
