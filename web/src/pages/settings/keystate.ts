import { Scope } from "../../api/gen/slipway/platform/v1/identity_pb";
import type { Tone } from "../../ui/status";

const week = 7 * 24 * 3_600_000;

/** keyState is a word for whether a key works, and how long still. */
export function keyState(
  key: { revoked: boolean; expiresAt: Date | undefined },
  now: number,
): { word: string; tone: Tone } {
  if (key.revoked) return { word: "Revoked", tone: "off" };
  if (!key.expiresAt) return { word: "Active", tone: "good" };
  const left = key.expiresAt.getTime() - now;
  if (left <= 0) return { word: "Expired", tone: "off" };
  return left < week ? { word: "Expires soon", tone: "warn" } : { word: "Active", tone: "good" };
}

const words: Record<Scope, string> = {
  [Scope.UNSPECIFIED]: "",
  [Scope.ALL]: "do everything",
  [Scope.READ]: "read",
  [Scope.RUNTIME_REGISTER]: "register runtimes",
};

/** scopeWords describes the scopes of a key. */
export function scopeWords(scopes: Scope[]): string {
  const all = scopes.map((scope) => words[scope]).filter((word) => word !== "");
  return all.length === 0 ? "–" : all.join(", ");
}
