// What the page says about environments and Promotions.

import type {
  PromotionEnvironment,
  PromotionFlowState,
  PromotionState,
  PromotionStepState,
} from "../../api/gen/slipway/runtime/v1/promotion_pb";
import type { Tone } from "../../ui/status";
import { shortRevision } from "../applications/parts";

const tones: Record<string, Tone> = {
  Succeeded: "good",
  Progressing: "progress",
  Writing: "progress",
  Verifying: "progress",
  Reviewing: "warn",
  Waiting: "warn",
  Failed: "bad",
};

/** phaseTone is the tone of a phase of a Promotion or a step. */
export const phaseTone = (phase: string): Tone => tones[phase] ?? "off";

/** isOpen is true for a Promotion that has not ended. */
export const isOpen = (promotion: PromotionState): boolean => promotion.finishedAt === undefined;

/** versionsOf is the versions in an environment: commits where versions are not known, and more than one while its applications differ. */
export function versionsOf(environment: PromotionEnvironment): string[] {
  return [...new Set(environment.applications.map((app) => app.version || shortRevision(app.revision) || "–"))];
}

/** running is the Promotion of a flow that has not ended; the one that has begun first. One that has not begun has no flow. */
export function running(
  product: string,
  flow: PromotionFlowState,
  promotions: readonly PromotionState[],
): PromotionState | undefined {
  const open = promotions.filter((one) => one.product === product && isOpen(one));
  return open.find((one) => one.flow === flow.name) ?? open.findLast((one) => one.flow === "");
}

export interface NextStep {
  text: string;
  tone: Tone;
  /** What can be approved now. */
  approve?: { promotion: PromotionState; step: PromotionStepState };
}

/** nextStep is what happens in an environment next, or who has to do what. */
export function nextStep(
  environment: PromotionEnvironment,
  flow: PromotionFlowState,
  promotion: PromotionState | undefined,
): NextStep {
  const first = flow.environments[0];
  if (environment.name === first?.name) return { text: "Promotions begin here.", tone: "off" };
  const step = promotion?.steps.find((one) => one.environment === environment.name);
  if (promotion && step && step.phase !== "Succeeded" && step.phase !== "Skipped") {
    return {
      text: stepWord(promotion, step, environment),
      tone: phaseTone(step.phase),
      ...(step.mayApprove && { approve: { promotion, step } }),
    };
  }
  if (promotion && step?.phase === "Succeeded") return { text: `${promotion.version} is here.`, tone: "good" };
  if (promotion) return { text: `${promotion.name} has not begun.`, tone: "off" };
  // What comes before it in the flow decides: the versions there are those that it gets.
  const before = flow.environments.filter((one) => environment.dependsOn.includes(one.name));
  const other = before.find((one) => one.applications.length > 0 && !sameVersions(one, environment));
  if (environment.applications.length > 0 && other) {
    return { text: `${other.name} has ${versionsOf(other).join(", ")}.`, tone: "off" };
  }
  return { text: "Nothing to promote.", tone: "off" };
}

const sameVersions = (a: PromotionEnvironment, b: PromotionEnvironment): boolean =>
  versionsOf(a).toSorted().join() === versionsOf(b).toSorted().join();

// stepWord: the agent's message names the command for an approval, which the page has a button for.
function stepWord(promotion: PromotionState, step: PromotionStepState, environment: PromotionEnvironment): string {
  if (step.message.startsWith("waiting for approval")) return `${promotion.version} waits for approval.`;
  if (step.message !== "") return `${promotion.version}: ${step.message}`;
  if (step.phase === "Pending") return `${promotion.version} comes after ${environment.dependsOn.join(", ")}.`;
  return `${promotion.version}: ${step.phase}`;
}

const actions: Record<string, string> = { commit: "commit", pr: "pull request", none: "by others" };

/** actionWord is how an environment is written. */
export const actionWord = (action: string): string => actions[action] ?? (action || "–");

/** webAddress is an address that a browser may open, or empty. */
export const webAddress = (text: string): string => (/^https?:\/\//.test(text) ? text : "");
