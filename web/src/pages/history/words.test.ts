import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { TrafficSeriesSchema } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { DeploymentSchema, DoraGroup } from "../../api/gen/slipway/platform/v1/history_pb";
import {
  betweenWord,
  dayWord,
  durationWord,
  groupOf,
  initiatorWord,
  lengthWord,
  perDayWord,
  readGrouping,
  resultOf,
  seriesWord,
  stepWord,
} from "./words";

test("results of deployments", () => {
  const at = timestampFromMs(0);
  const results = [
    { succeeded: false },
    { succeeded: true },
    { succeeded: true, rollback: true },
    { succeeded: true, rolledBackAt: at },
  ].map((one) => resultOf(create(DeploymentSchema, one)).label);
  expect(results).toEqual(["Failed", "Succeeded", "Rollback", "Rolled back"]);
  expect(initiatorWord(create(DeploymentSchema, { automated: true, initiator: "ann" }))).toBe("the sync policy");
  expect(initiatorWord(create(DeploymentSchema, { initiator: "ann" }))).toBe("ann");
});

test("lengths have two units", () => {
  expect([0, -5_000, 59_000, 60_000, 90_000, 3_600_000, 5_400_000, 90_000_000].map(lengthWord)).toEqual([
    "0 s",
    "0 s",
    "59 s",
    "1 min",
    "1 min 30 s",
    "1 h",
    "1 h 30 min",
    "1 d 1 h",
  ]);
  expect(durationWord(undefined)).toBe("–");
  expect(durationWord(durationFromMs(61_000))).toBe("1 min 1 s");
  expect([60_000, 600_000, 3_600_000, 7_200_000].map((step) => stepWord(durationFromMs(step)))).toEqual([
    "minute",
    "10 minutes",
    "hour",
    "2 hours",
  ]);
  expect(betweenWord(timestampFromMs(0), timestampFromMs(2_000))).toBe("2 s");
  expect(betweenWord(undefined, timestampFromMs(2_000))).toBe("–");
});

test("groups, rates and series", () => {
  expect(groupOf(readGrouping("project"))).toBe(DoraGroup.PROJECT);
  expect(readGrouping("else")).toBe("application");
  expect(perDayWord(0.3)).toBe("0.30");
  expect(perDayWord(12.4)).toBe("12");
  expect(seriesWord(create(TrafficSeriesSchema, { kind: "Ingress", namespace: "sea", name: "shop" }))).toBe(
    "Ingress sea/shop",
  );
  expect(seriesWord(create(TrafficSeriesSchema, { others: true }))).toBe("others");
  expect(seriesWord(create(TrafficSeriesSchema))).toBe("without a route");
  expect(dayWord(timestampFromMs(Date.parse("2026-05-08T23:59:00Z")))).toBe("8 May");
});
