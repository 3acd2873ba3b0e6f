import { expect, test } from "vitest";
import { isAutomated, isRunning, progressOf, readManifest, safeLink, sourcesOf } from "./manifest";

const marked = (value: string) => ({ info: [{ name: "slipway.dev/request", value }] });

test("an operation is found by its request", () => {
  const began = "2026-01-01T10:00:00Z";
  expect(progressOf({ operation: marked("a") }, "a", began)).toEqual({ step: "waiting" });
  const state = { operation: marked("a"), phase: "Running", startedAt: "2026-01-01T10:00:05Z" };
  expect(progressOf({ status: { operationState: state } }, "a", began)).toEqual({ step: "known", state });
  expect(progressOf({ status: { operationState: state } }, "b", began)).toEqual({ step: "lost" });
  expect(progressOf({ status: { operationState: { startedAt: began } } }, "b", began)).toEqual({ step: "waiting" });
});

test("what is asked for runs already", () => {
  expect(isRunning({ operation: {} })).toBe(true);
  expect(isRunning({ status: { operationState: { phase: "Terminating" } } })).toBe(true);
  expect(isRunning({ status: { operationState: { phase: "Succeeded" } } })).toBe(false);
});

test("automated can be turned off in its place", () => {
  expect(isAutomated({ spec: { syncPolicy: { automated: {} } } })).toBe(true);
  expect(isAutomated({ spec: { syncPolicy: { automated: { enabled: false } } } })).toBe(false);
  expect(isAutomated({})).toBe(false);
});

test("one source or several", () => {
  expect(sourcesOf({ spec: { source: { path: "a" }, sources: [] } })).toEqual([{ path: "a" }]);
  expect(sourcesOf({ spec: { sources: [{ path: "b" }] } })).toEqual([{ path: "b" }]);
});

test("only addresses of the web become links", () => {
  expect(safeLink("javascript:alert(1)")).toBeNull();
  expect(safeLink("git@example.com:a/b")).toBeNull();
  expect(safeLink("https://example.com/a")).toBe("https://example.com/a");
});

test("a manifest that is no object is empty", () => {
  expect(readManifest(new TextEncoder().encode("null"))).toEqual({});
});
