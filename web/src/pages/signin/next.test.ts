import { expect, test } from "vitest";
import { safeNext, withReturn } from "./next";

test.each([
  ["/console/settings?section=git#x", "/console/settings?section=git#x"],
  ["/console/runtimes", "/console/runtimes"],
  [undefined, "/console/"],
  ["", "/console/"],
  ["/", "/console/"],
  ["/auth/oidc/login", "/console/"],
  ["/console/../auth/oidc/login", "/console/"],
  ["/console/%2e%2e/auth/oidc/login", "/console/"],
  ["//evil.example/console/", "/console/"],
  ["/\\evil.example/console/", "/console/"],
  ["/\t/evil.example/console/", "/console/"],
  ["https://evil.example/console/", "/console/"],
  ["javascript:alert(1)", "/console/"],
  ["/console/sign-in?next=/console/", "/console/"],
  ["/console/change-password", "/console/"],
  [`/console/${"a".repeat(2000)}`, "/console/"],
])("a sign-in with next %s leads to %s", (given, want) => {
  expect(safeNext(given)).toBe(want);
});

test("the identity provider's sign-in comes back to the page", () => {
  expect(withReturn("https://slipway.example/auth/oidc/login", "/console/traffic?tab=a")).toBe(
    "https://slipway.example/auth/oidc/login?return=%2Fconsole%2Ftraffic%3Ftab%3Da",
  );
});
