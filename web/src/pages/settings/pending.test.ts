import { expect, test } from "vitest";
import { takePending } from "./pending";

function storage(text: string | null) {
  let held = text;
  return {
    getItem: () => held,
    removeItem: () => {
      held = null;
    },
  };
}
const good = JSON.stringify({ state: "s1", runtime: "prod", back: "/settings?section=git" });

test("a login is finished by its own state, once", () => {
  const held = storage(good);
  expect(takePending(held, "s1")).toEqual({ state: "s1", runtime: "prod", back: "/settings?section=git" });
  expect(takePending(held, "s1")).toBeNull();
});

test.each([
  ["another state", good, "s2"],
  ["no state", JSON.stringify({ state: "", runtime: "prod", back: "/" }), ""],
  ["nothing begun", null, "s1"],
  ["no JSON", "{", "s1"],
  ["another shape", JSON.stringify(["s1"]), "s1"],
])("%s is nobody's login", (_, text, state) => {
  expect(takePending(storage(text), state)).toBeNull();
});
