import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type Node, NodeSchema } from "../../api/gen/slipway/runtime/v1/application_pb";
import { readObject, writeObject } from "./resourcename";
import { buildTree, changedObjects, keyStep, noFilter, treeRows, treeValues } from "./tree";

function node(
  kind: string,
  name: string,
  uid: string,
  parents: string[] = [],
  rest: { sync?: string; health?: string; resourceVersion?: string } = {},
) {
  return create(NodeSchema, { ref: { kind, name, uid, namespace: "shop" }, parents, health: "Healthy", ...rest });
}

const nodes: Node[] = [
  node("Pod", "web-1-a", "p", ["r"], { health: "Degraded" }),
  node("ConfigMap", "settings", "c", [], { sync: "OutOfSync" }),
  node("ReplicaSet", "web-1", "r", ["d"]),
  node("Deployment", "web", "d"),
  node("Service", "web", "s"),
];
const shown = (collapsed: string[], filter = noFilter) =>
  treeRows(buildTree(nodes), new Set(collapsed), filter).map((row) => `${row.level} ${row.node.ref?.name}`);

test("what was made stands below what made it", () => {
  expect(shown([])).toEqual(["1 web", "1 web", "2 web-1", "3 web-1-a", "1 settings"]);
});

test("a closed row hides what is below it", () => {
  expect(shown([">d"])).toEqual(["1 web", "1 web", "1 settings"]);
});

test("a filter keeps the way to what fits", () => {
  expect(shown([], { ...noFilter, health: "Degraded" })).toEqual(["1 web", "2 web-1", "3 web-1-a"]);
  expect(shown([], { ...noFilter, outOfSync: true })).toEqual(["1 settings"]);
  expect(shown([], { ...noFilter, kind: "Service" })).toEqual(["1 web"]);
  expect(shown([], { ...noFilter, text: "configmap/set" })).toEqual(["1 settings"]);
});

test("rows know their place among their siblings", () => {
  const rows = treeRows(buildTree(nodes), new Set(), noFilter);
  expect(rows.map((row) => `${row.position}/${row.siblings}`)).toEqual(["1/3", "2/3", "1/1", "1/1", "3/3"]);
});

test("a circle of owners ends", () => {
  const circle = [node("A", "root", "x"), node("A", "one", "y", ["x", "z"]), node("A", "two", "z", ["y"])];
  expect(treeRows(buildTree(circle), new Set(), noFilter).length).toBeLessThan(100);
  expect(treeRows(buildTree(circle), new Set(), { ...noFilter, text: "two" }).length).toBeGreaterThan(0);
});

test("a node whose parent is not there is a root", () => {
  expect(buildTree([node("Pod", "lone", "l", ["gone"])]).roots).toHaveLength(1);
});

test("what can be chosen, counted", () => {
  const values = treeValues(nodes);
  expect(values.healths).toEqual([
    ["Degraded", 1],
    ["Healthy", 4],
  ]);
  expect(values.outOfSync).toBe(1);
});

test("an object goes into the address and back", () => {
  const object = { group: "apps", kind: "Deployment", namespace: "shop", name: "web" };
  expect(readObject(writeObject(object))).toEqual(object);
  expect(readObject("nonsense")).toBeNull();
});

test("keys go through the tree as in every other", () => {
  const rows = treeRows(buildTree(nodes), new Set([">d>r"]), noFilter);
  expect(keyStep("ArrowRight", rows, 0)).toBeNull();
  expect(keyStep("ArrowRight", rows, 1)).toEqual({ move: 2 });
  expect(keyStep("ArrowRight", rows, 2)).toEqual({ expand: true });
  expect(keyStep("ArrowLeft", rows, 2)).toEqual({ move: 1 });
  expect(keyStep("ArrowLeft", rows, 1)).toEqual({ expand: false });
  expect(keyStep("Enter", rows, 0)).toEqual({ open: true });
  expect(keyStep("x", rows, 0)).toBeNull();
});

test("what changed is what is new, different or gone", () => {
  const before = [
    node("Pod", "same", "1", [], { resourceVersion: "1" }),
    node("Pod", "changed", "2", [], { resourceVersion: "1" }),
    node("Pod", "again", "3", [], { resourceVersion: "1" }),
    node("Pod", "gone", "4"),
    node("Job", "unversioned", ""),
  ];
  const after = [
    node("Job", "unversioned", "", [], { health: "Degraded" }),
    node("Pod", "same", "1", [], { resourceVersion: "1" }),
    node("Pod", "changed", "2", [], { resourceVersion: "2" }),
    node("Pod", "again", "5", [], { resourceVersion: "1" }),
    node("Pod", "new", "6"),
  ];
  const names = [...changedObjects(before, after)].map((each) => readObject(each)?.name);
  expect(names.sort()).toEqual(["again", "changed", "gone", "new", "unversioned"]);
  expect(changedObjects(after, after).size).toBe(0);
});
