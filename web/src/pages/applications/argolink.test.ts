import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApplicationSchema } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { linked, openedResource } from "./argolink";

const app = (runtime: string, namespace: string, name: string) =>
  create(ApplicationSchema, { runtime, namespace, name });
const all = [
  app("east", "slipway", "web"),
  app("west", "argocd", "web"),
  app("east", "slipway", "api"),
  app("west", "slipway", "api"),
];
const places = (link: { namespace?: string; name: string }) =>
  linked(all, link).map((one) => `${one.runtime}/${one.namespace}`);

test("the namespace of an address decides if it fits, and the name if not", () => {
  expect(places({ namespace: "argocd", name: "web" })).toEqual(["west/argocd"]);
  expect(places({ namespace: "slipway", name: "web" })).toEqual(["east/slipway"]);
  expect(places({ namespace: "argocd", name: "api" })).toEqual(["east/slipway", "west/slipway"]);
  expect(places({ name: "web" })).toEqual(["east/slipway", "west/argocd"]);
  expect(places({ name: "we" })).toEqual([]);
});

test("the object of an address opens, and a filter does not", () => {
  expect(openedResource({ node: "apps/Deployment/shop/web/0" })).toBe("apps/Deployment/shop/web");
  expect(openedResource({ node: "/Service/shop/web" })).toBe("/Service/shop/web");
  expect(openedResource({ resource: "apps/Deployment/shop/web" })).toBe("apps/Deployment/shop/web");
  expect(openedResource({ resource: "apps/Deployment/shop/web/0" })).toBeUndefined();
  expect(openedResource({ resource: "kind:Pod,health:Healthy" })).toBeUndefined();
  expect(openedResource({ node: "argoproj.io/Application", resource: "/Service/shop/web" })).toBe("/Service/shop/web");
  expect(openedResource({})).toBeUndefined();
});
