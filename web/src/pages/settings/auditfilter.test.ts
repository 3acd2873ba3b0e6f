import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { noFilter, outcomeTone, requestOf } from "./auditfilter";

const now = Date.parse("2026-05-01T12:00:00Z");

test("a period bounds the request, and no period does not", () => {
  const request = requestOf({ ...noFilter, actor: " ann@example.com ", period: "24" }, now);
  expect(request.actor).toBe("ann@example.com");
  expect(request.since && timestampMs(request.since)).toBe(Date.parse("2026-04-30T12:00:00Z"));
  expect(requestOf(noFilter, now)).toEqual({ actor: "", action: "", target: "" });
});

test("what did not go well stands out", () => {
  const outcomes = ["ok", "denied", "unknown", "failed", "begun", "?"];
  expect(outcomes.map(outcomeTone)).toEqual(["good", "warn", "warn", "bad", "progress", "off"]);
});
