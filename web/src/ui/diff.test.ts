import { expect, test } from "vitest";
import { diffLines, diffSize } from "./diff";

test("a unified diff without the names of its files", () => {
  const lines = diffLines("--- live\n+++ git\n@@ -1,3 +1,3 @@\n kind: A\n--- old\n+++ new\n same\n");
  expect(lines.map((line) => line.kind)).toEqual(["place", "same", "remove", "add", "same"]);
  expect(diffSize(lines)).toEqual({ added: 1, removed: 1 });
});
