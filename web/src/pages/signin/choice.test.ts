import { expect, test } from "vitest";
import { passwordProblem } from "./choice";

const email = "longer.name.of.ann@example.com";

test.each([
  ["correct horse battery", ""],
  ["short", "12 characters"],
  ["ééééééééééé", "12 characters"],
  ["aaaaaaaaaaaaaaaa", "different"],
  ["Longer.Name.of.Ann@example.com ", "email"],
  ["longer.name.of.ann", "email"],
  [`abcd${"é".repeat(600)}`, "too long"],
])("%s", (password, problem) => {
  const found = passwordProblem(password, email);
  if (problem === "") expect(found).toBe("");
  else expect(found).toContain(problem);
});
