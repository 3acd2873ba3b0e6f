import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { PromotionFlowStateSchema, PromotionStateSchema } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { actionWord, nextStep, phaseTone, running, versionsOf, webAddress } from "./model";

const flow = (dev: string, staging: string, prod: string[]) =>
  create(PromotionFlowStateSchema, {
    name: "to-prod",
    environments: [
      { name: "dev", applications: [{ version: dev }] },
      { name: "staging", dependsOn: ["dev"], applications: [{ version: staging }] },
      { name: "prod", dependsOn: ["staging"], applications: prod.map((version) => ({ version })) },
    ],
  });

const promotion = (steps: [string, string, string][], more = {}) =>
  create(PromotionStateSchema, {
    name: "web-1",
    product: "web",
    flow: "to-prod",
    version: "v2",
    steps: steps.map(([environment, phase, message]) => ({ environment, phase, message })),
    ...more,
  });

const texts = (...[of, by]: [ReturnType<typeof flow>, ReturnType<typeof promotion>?]) =>
  of.environments.map((environment) => nextStep(environment, of, by).text);

test("the next steps while nothing is promoted", () => {
  expect(texts(flow("v2", "v2", ["v1", "v2"]))).toEqual([
    "Promotions begin here.",
    "Nothing to promote.",
    "staging has v2.",
  ]);
  expect(texts(flow("v2", "v1", ["v1"]))[1]).toBe("dev has v2.");
});

test("the next steps of a promotion", () => {
  const waits = "waiting for approval: slipway promote approve web-1 prod";
  expect(
    texts(
      flow("v2", "v2", ["v1"]),
      promotion([
        ["staging", "Succeeded", ""],
        ["prod", "Waiting", waits],
      ]),
    ).slice(1),
  ).toEqual(["v2 is here.", "v2 waits for approval."]);
  expect(
    texts(
      flow("v2", "v1", ["v1"]),
      promotion([
        ["staging", "Verifying", "waiting: web-staging is Progressing"],
        ["prod", "Pending", ""],
      ]),
    ).slice(1),
  ).toEqual(["v2: waiting: web-staging is Progressing", "v2 comes after staging."]);
  expect(texts(flow("v2", "v1", ["v1"]), promotion([]))[1]).toBe("web-1 has not begun.");
});

test("an approval is offered to those who may give it", () => {
  const one = promotion([["prod", "Waiting", "waiting for approval"]]);
  const of = flow("v2", "v2", ["v1"]);
  const prod = of.environments[2];
  if (!prod || !one.steps[0]) throw new Error("there is no such environment");
  expect(nextStep(prod, of, one).approve).toBeUndefined();
  one.steps[0].mayApprove = true;
  expect(nextStep(prod, of, one).approve?.step.environment).toBe("prod");
});

test("which promotion runs", () => {
  const of = flow("v2", "v1", ["v1"]);
  const ended = promotion([], { name: "old", finishedAt: timestampFromMs(0) });
  const pending = promotion([], { name: "later", flow: "" });
  const begun = promotion([], { name: "now" });
  expect(running("web", of, [ended])).toBeUndefined();
  expect(running("web", of, [pending, ended])?.name).toBe("later");
  expect(running("web", of, [pending, begun, ended])?.name).toBe("now");
  expect(running("shop", of, [begun])).toBeUndefined();
});

test("words", () => {
  const of = flow("", "v1", ["v1", "v2"]);
  expect(of.environments.map((one) => versionsOf(one).join())).toEqual(["–", "v1", "v1,v2"]);
  expect([phaseTone("Failed"), phaseTone("Aborted"), actionWord("pr"), actionWord("")]).toEqual([
    "bad",
    "off",
    "pull request",
    "–",
  ]);
  expect([webAddress("https://git.example/1"), webAddress("javascript:x")]).toEqual(["https://git.example/1", ""]);
});
