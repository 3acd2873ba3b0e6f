import { expect, it } from "vitest";
import { isCommand, summarise } from "./preflight";

it("tells commands from sentences", () => {
  expect(isCommand("kubectl get svc -A")).toBe(true);
  expect(isCommand("upgrade it:\napiVersion: v1")).toBe(true);
  expect(isCommand("contact an administrator")).toBe(false);
});

it("counts", () => {
  const states = (...all: string[]) => all.map((state) => ({ state }));
  expect(summarise([], 0, false)).toBe("0 of … checks have ended.");
  expect(summarise(states("ok", "error"), 18, false)).toBe("2 of 18 checks have ended: 1 error.");
  expect(summarise(states("ok", "error", "error", "warning"), 4, true)).toBe("4 checks: 2 errors and 1 warning.");
  expect(summarise(states("ok", "skipped"), 2, true)).toBe("All 2 checks are good.");
});
