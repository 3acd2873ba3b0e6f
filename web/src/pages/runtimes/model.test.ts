import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { CompletionStep, HealthStatus, RuntimeSchema, SyncStatus } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { chooseRuntimes, componentOf, problemsOf } from "./model";

const now = Date.UTC(2026, 10, 15);
const day = 86_400_000;
const well = { name: "prod", online: true, health: HealthStatus.HEALTHY } as const;

describe("problemsOf", () => {
  it("is empty for a runtime that is well", () => {
    expect(problemsOf(create(RuntimeSchema, well), now)).toEqual([]);
  });

  it("names offline first", () => {
    const ids = problemsOf(
      create(RuntimeSchema, {
        ...well,
        online: false,
        healthMessage: "offline since noon",
        pendingSteps: [CompletionStep.USER_TOKEN],
      }),
      now,
    ).map((one) => one.id);
    expect(ids).toEqual(["offline", "complete"]);
  });

  it("tells an expired token from one that expires, and from one that is good", () => {
    const titles = (days: number) =>
      problemsOf(create(RuntimeSchema, { ...well, gitTokenExpiresAt: timestampFromMs(now + days * day) }), now).map(
        (one) => one.title,
      );
    expect(titles(-1)).toEqual(["The Git token of the runtime has expired"]);
    expect(titles(3)).toEqual(["The Git token of the runtime expires in 3 days"]);
    expect(titles(30)).toEqual([]);
  });

  it("names the component, and not the runtime too", () => {
    const found = problemsOf(
      create(RuntimeSchema, {
        ...well,
        health: HealthStatus.DEGRADED,
        healthMessage: "slipway-edge: 0 of 2",
        components: [{ name: "slipway-edge", health: HealthStatus.DEGRADED, healthMessage: "0 of 2" }],
      }),
      now,
    );
    expect(found.map((one) => [one.id, one.detail, one.action])).toEqual([
      ["component slipway-edge", "0 of 2", "components"],
    ]);
  });

  it("does not call a runtime well that differs from Git", () => {
    const ids = (online: boolean) =>
      problemsOf(create(RuntimeSchema, { ...well, online, sync: SyncStatus.OUT_OF_SYNC }), now).map((one) => one.id);
    expect(ids(true)).toEqual(["sync"]);
    expect(ids(false)).toEqual(["offline"]);
  });

  it("puts errors before warnings", () => {
    const tones = problemsOf(
      create(RuntimeSchema, {
        ...well,
        pendingSteps: [CompletionStep.USER_TOKEN],
        clusters: [{ name: "b", status: "Failed" }],
      }),
      now,
    ).map((one) => one.tone);
    expect(tones).toEqual(["bad", "warn"]);
  });

  it("names a cluster that fails", () => {
    const clusters = [
      { name: "a", status: "Connected" },
      { name: "b", status: "Failed", message: "refused" },
    ];
    expect(problemsOf(create(RuntimeSchema, { ...well, clusters }), now).map((one) => one.id)).toEqual(["cluster b"]);
  });
});

describe("chooseRuntimes", () => {
  const all = [
    create(RuntimeSchema, { ...well, name: "rt10", cluster: "eu", version: "1.10.0" }),
    create(RuntimeSchema, { ...well, name: "rt9", cluster: "us", version: "1.9.0" }),
    create(RuntimeSchema, { ...well, name: "edge", cluster: "eu", version: "1.9.0", online: false }),
  ];
  const names = (query: string, sort: "name" | "version" | "status") =>
    chooseRuntimes(all, query, sort).map((one) => one.name);

  it("sorts numbers as numbers", () => {
    expect(names("", "name")).toEqual(["edge", "rt9", "rt10"]);
    expect(names("", "version")).toEqual(["edge", "rt9", "rt10"]);
  });
  it("puts what needs somebody first", () => {
    expect(names("", "status")).toEqual(["edge", "rt9", "rt10"]);
  });
  it("finds all words, anywhere", () => {
    expect(names("EU rt", "name")).toEqual(["rt10"]);
    expect(names("nothing", "name")).toEqual([]);
  });
});

it("componentOf is the label of the Deployment", () => {
  expect(componentOf("slipway-agent")).toBe("agent");
  expect(componentOf("edge")).toBe("edge");
});
