import { expect, test } from "vitest";
import { Scope } from "../../api/gen/slipway/platform/v1/identity_pb";
import { keyState, scopeWords } from "./keystate";

const now = Date.parse("2026-05-01T12:00:00Z");
const day = 24 * 3_600_000;

test.each([
  ["does not expire", { revoked: false, expiresAt: undefined }, "Active"],
  ["later", { revoked: false, expiresAt: new Date(now + 30 * day) }, "Active"],
  ["in two days", { revoked: false, expiresAt: new Date(now + 2 * day) }, "Expires soon"],
  ["this moment", { revoked: false, expiresAt: new Date(now) }, "Expired"],
  ["revoked and expired", { revoked: true, expiresAt: new Date(now - day) }, "Revoked"],
])("a key that %s", (_, key, word) => {
  expect(keyState(key, now).word).toBe(word);
});

test("scopes in words", () => {
  expect(scopeWords([Scope.READ, Scope.RUNTIME_REGISTER])).toBe("read, register runtimes");
  expect(scopeWords([])).toBe("–");
});
