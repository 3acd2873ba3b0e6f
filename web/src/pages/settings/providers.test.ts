import { expect, test } from "vitest";
import { providerName, tokenState } from "./providers";

const now = Date.parse("2026-05-01T12:00:00Z");
const inDays = (days: number) => new Date(now + days * 24 * 3_600_000);

test.each([
  ["ok", undefined, "Works"],
  ["ok", inDays(100), "Works"],
  ["ok", inDays(3), "Expires soon"],
  ["ok", inDays(-1), "Expired"],
  ["revoked", inDays(100), "Revoked"],
  ["insufficient", inDays(3), "Insufficient permissions"],
  ["something new", undefined, "Not checked"],
])("a token that is %s and expires %s", (state, expires, word) => {
  expect(tokenState(state, expires, now).word).toBe(word);
});

test("providers have names, and unknown ones are shown as they are", () => {
  expect(providerName("bitbucket-server")).toBe("Bitbucket Server");
  expect(providerName("git")).toBe("Other Git server");
  expect(providerName("gitea")).toBe("gitea");
});
