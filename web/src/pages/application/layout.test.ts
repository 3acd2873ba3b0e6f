import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { NodeSchema } from "../../api/gen/slipway/runtime/v1/application_pb";
import { graphLayout, nodeHeight } from "./layout";
import { buildTree, noFilter, treeRows } from "./tree";

const node = (name: string, parents: string[] = []) =>
  create(NodeSchema, { ref: { kind: "Pod", name, uid: name }, parents });

test("boxes do not lie on each other, and a parent stands in the middle", () => {
  const nodes = [node("a"), node("b", ["a"]), node("c", ["a"]), node("d", ["a"]), node("e")];
  const layout = graphLayout(treeRows(buildTree(nodes), new Set(), noFilter));
  const at = new Map(layout.boxes.map((box) => [box.row.node.ref?.name, box]));
  expect(at.get("a")?.y).toBe(at.get("c")?.y);
  expect(at.get("b")?.x).toBeGreaterThan(at.get("a")?.x ?? 0);
  for (const one of layout.boxes) {
    for (const other of layout.boxes) {
      if (one !== other && one.x === other.x) expect(Math.abs(one.y - other.y)).toBeGreaterThan(nodeHeight);
    }
  }
  expect(layout.lines).toHaveLength(3);
});
