// The words for releases of an application.

import type { ReleaseTraffic } from "../../api/gen/slipway/runtime/v1/release_pb";
import type { Tone } from "../../ui/status";
import type { ApplicationManifest } from "./manifest";

/** hasReleases is true for an application with a workload that can have releases. */
export const hasReleases = (manifest: ApplicationManifest | null): boolean =>
  manifest?.status?.resources?.some(({ kind }) => kind === "Deployment" || kind === "Rollout") ?? false;

const tones: Record<string, Tone> = {
  Healthy: "good",
  Succeeded: "good",
  Progressing: "progress",
  Paused: "off",
  Degraded: "bad",
  RolledBack: "bad",
  Held: "warn",
};

/** phaseTone is the tone of a phase of a Rollout or a Release. */
export const phaseTone = (phase: string): Tone => tones[phase] ?? "off";

const texts: Record<string, { label: string; effect: string }> = {
  promote: { label: "Promote", effect: "Ends the pause of the release, or skips its current step." },
  "promote-full": { label: "Promote fully", effect: "Skips all remaining steps, pauses and analyses." },
  abort: { label: "Abort", effect: "Takes all requests back to the stable revision." },
  pause: { label: "Pause", effect: "Stays at the current step and share until it is resumed." },
  resume: { label: "Resume", effect: "Goes on with the current step." },
  retry: { label: "Retry", effect: "Starts the release again from its first step." },
};

/** actionText is what a button of an action says, and what the action does. */
export const actionText = (name: string) => texts[name] ?? { label: name, effect: "" };

/** totalWeight is what the weights of all revisions add up to: maxTrafficWeight of a Rollout, and 100 without weights. */
export const totalWeight = (revisions: readonly { weight?: number }[]): number =>
  revisions.reduce((sum, one) => sum + (one.weight ?? 0), 0) || 100;

/** weightWord is the share of a revision: a percentage, or a part of another total. */
export const weightWord = (weight: number | undefined, total: number): string =>
  weight === undefined ? "–" : total === 100 ? `${weight} %` : `${weight}/${total}`;

/** sharesWord is the shares of all revisions that have one, for those who cannot see their bar. */
export const sharesWord = (revisions: readonly { name: string; weight?: number }[]): string =>
  revisions
    .filter((one) => one.weight !== undefined)
    .map((one) => `${one.name} ${weightWord(one.weight, totalWeight(revisions))}`)
    .join(", ");

/** errorWord is the share of failed requests, and their number. */
export function errorWord(traffic: ReleaseTraffic | undefined): string {
  if (!traffic || traffic.requests === 0n) return "–";
  const percent = (100 * Number(traffic.errors)) / Number(traffic.requests);
  return `${percent.toFixed(1)} % (${traffic.errors.toLocaleString("en")})`;
}

/** latencyWord is a latency with three digits. */
export function latencyWord(micros: bigint | undefined): string {
  if (!micros) return "–";
  const value = Number(micros);
  if (value < 1_000) return `${value} µs`;
  const millis = value / 1_000;
  return millis < 1_000 ? `${millis.toPrecision(3)} ms` : `${(millis / 1_000).toPrecision(3)} s`;
}
