import { expect, test } from "vitest";
import { labelOf } from "./actionlabel";

test("an action without a name for people has its own in words", () => {
  expect(labelOf({ name: "restart", displayName: "" })).toBe("Restart");
  expect(labelOf({ name: "promote-full", displayName: "" })).toBe("Promote full");
  expect(labelOf({ name: "promote-full", displayName: "Promote completely" })).toBe("Promote completely");
});
