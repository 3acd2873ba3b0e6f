// The Git providers, in words.

import type { Tone } from "../../ui/status";

export const providers = [
  { value: "github", label: "GitHub" },
  { value: "gitlab", label: "GitLab" },
  { value: "bitbucket", label: "Bitbucket Cloud" },
  { value: "bitbucket-server", label: "Bitbucket Server" },
  { value: "git", label: "Other Git server" },
];

/** providerName is how people call a provider. */
export function providerName(id: string): string {
  return providers.find((provider) => provider.value === id)?.label ?? id;
}

const states: Record<string, { word: string; tone: Tone }> = {
  ok: { word: "Works", tone: "good" },
  expired: { word: "Expired", tone: "bad" },
  revoked: { word: "Revoked", tone: "bad" },
  insufficient: { word: "Insufficient permissions", tone: "warn" },
  unknown: { word: "Not checked", tone: "off" },
};
const soon = 14 * 24 * 3_600_000;

/** tokenState is a word for whether a token works, and how long still. */
export function tokenState(state: string, expiresAt: Date | undefined, now: number): { word: string; tone: Tone } {
  if (state === "ok" && expiresAt) {
    const left = expiresAt.getTime() - now;
    if (left <= 0) return { word: "Expired", tone: "bad" };
    if (left < soon) return { word: "Expires soon", tone: "warn" };
  }
  return states[state] ?? { word: "Not checked", tone: "off" };
}
