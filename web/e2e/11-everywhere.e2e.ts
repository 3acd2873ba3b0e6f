// What the story does not come by, and then whether everything that there is was
// looked at.

import type { Page } from "@playwright/test";
import { at, expect, test } from "./support/fixtures";
import { look } from "./support/look";
import { isSeen, routes, scans, titles } from "./support/scanned";
import { world } from "./support/world";

// dialog scans an open dialog and closes it without an action.
async function dialog(page: Page, title: string | RegExp, name: string): Promise<void> {
  const shown = page.getByRole("dialog", { name: title });
  await expect(shown).toBeVisible();
  await expect(shown.getByRole("status", { name: "Loading" })).toHaveCount(0);
  await look(page, name);
  await page.keyboard.press("Escape");
  await expect(shown).toBeHidden();
}

// entry chooses from a menu.
async function entry(page: Page, menu: string, label: string): Promise<void> {
  await page.getByRole("button", { name: menu, exact: true }).click();
  await page.getByRole("menuitem", { name: label, exact: true }).click();
}

test("what can be done to a runtime", async ({ admin: page }) => {
  await page.goto(at("/runtimes/shop"));
  const actions = "Actions for the runtime shop";
  await page.getByRole("button", { name: actions }).click();
  await expect(page.getByRole("menu")).toBeVisible();
  await look(page, "runtime-menu");
  await page.keyboard.press("Escape");
  for (const [label, title, name] of [
    ["Set as configuration runtime", /^Make shop/, "runtime-configuration"],
    ["Update Git credentials", "Git credentials of the runtime", "runtime-credentials"],
    ["Revoke its credentials", /^Revoke/, "runtime-revoke"],
    ["Uninstall", "Uninstall shop", "runtime-uninstall"],
  ] as const) {
    await entry(page, actions, label);
    await dialog(page, title, name);
  }
  await page.goto(at("/runtimes/shop?tab=clusters"));
  await page.getByRole("button", { name: /Add cluster/ }).click();
  await dialog(page, "Add cluster", "runtime-cluster-add");

  await page.goto(at("/runtimes/prod?tab=git-sources"));
  for (const [label, title] of [
    ["Change", "Change the Git Source apps"],
    ["Delete", "Delete the Git Source apps"],
  ] as const) {
    await entry(page, "Actions for the Git Source apps", label);
    await dialog(page, title, `git-source-${label.toLowerCase()}`);
  }
  await page.goto(at("/runtimes?query=nothing-has-this-name"));
  await expect(page.getByRole("heading", { name: "No matching runtimes" })).toBeVisible();
  await look(page, "runtimes-none-fits");
});

test("the components of a runtime, and their logs", async ({ admin: page }) => {
  await page.goto(at("/runtimes/prod"));
  const logs = page.getByRole("button", { name: /^Show the logs of/ });
  const none = page.getByRole("heading", { name: "No components reported" });
  await expect(logs.first().or(none)).toBeVisible();
  await look(page, "runtime-components");
  // A runtime that was installed without its chart has none.
  if (await none.isVisible()) return;
  await logs.first().click();
  await dialog(page, /^Logs of/, "runtime-logs");
});

test("what can be done to an application", async ({ admin: page }) => {
  await page.goto(at("/applications/prod/slipway/manual"));
  await expect(page.getByRole("region", { name: "State" })).toContainText("Live");
  await entry(page, "More actions", "Delete");
  await dialog(page, "Delete manual", "application-delete");
});

test("what can be done in the settings", async ({ admin: page }) => {
  await page.goto(at("/settings"));
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await dialog(page, "Rename the account", "settings-rename");
  await page.goto(at("/settings?section=users"));
  for (const [label, title] of [
    ["Change", `Change ${world.user.email}`],
    ["Reset the password", `Reset the password of ${world.user.email}`],
    ["Delete", `Delete ${world.user.email}`],
  ] as const) {
    await entry(page, `Actions for ${world.user.email}`, label);
    await dialog(page, title, `settings-user-${label.split(" ")[0]?.toLowerCase()}`);
  }
  for (const [label, title] of [
    ["Disable", `Disable ${world.user.email}`],
    ["Enable", `Enable ${world.user.email}`],
  ] as const) {
    await entry(page, `Actions for ${world.user.email}`, label);
    const shown = page.getByRole("dialog", { name: title });
    await expect(shown).toBeVisible();
    await look(page, `settings-user-${label.toLowerCase()}`);
    await shown.getByRole("button", { name: label, exact: true }).click();
    await expect(shown).toBeHidden();
  }

  await page.goto(at("/settings?section=git"));
  const integration = page.getByRole("region", { name: "Integration default" });
  await expect(integration).toBeVisible();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await dialog(page, "Reset the Git settings", "settings-git-reset");
  await page.getByRole("button", { name: "Add integration" }).click();
  await dialog(page, "Add integration", "settings-integration-add");
  for (const [label, title] of [
    ["Change", "Change the integration default"],
    ["Remove", "Remove the integration default"],
  ] as const) {
    await entry(page, "Actions for the integration default", label);
    await dialog(page, title, `settings-integration-${label.toLowerCase()}`);
  }
  await integration.getByRole("button", { name: /Register|Replace/ }).click();
  await dialog(page, /^Your token of/, "settings-token");
  await integration.getByRole("button", { name: "Deregister" }).click();
  await dialog(page, "Deregister your token", "settings-token-deregister");
});

test("traffic of a runtime that there is not", async ({ admin: page }) => {
  await page.goto(at("/traffic?runtime=nobody"));
  await expect(page.getByRole("heading", { name: "Runtime not found" })).toBeVisible();
  await look(page, "traffic-missing");
});

// What cannot be seen without breaking what the next spec needs, by its title or by
// title and file, with the reason.
const unreached = new Map([
  ["Terminate operation", "the syncs of these applications take less than a second"],
  ["No data yet", "what is in the list is known"],
  ["No resources", "every application has some"],
  ["The runtime is offline", "a runtime that stops is missed by what follows"],
  ["Delete … (pages/runtimes/actions.tsx)", "a runtime that is online cannot be deleted"],
  ["Finish the uninstallation", "it begins with the end of a runtime"],
  ["No clusters added", "the runtime's own is in the list"],
  ["Remove the cluster …", "there is one cluster"],
  ["Logs of …", "a runtime has components, or it has none"],
  ["No components reported", "a runtime has components, or it has none"],
  ["Your Git token", "it is there until the runtime has read the shared repository"],
  ["No runtimes yet (pages/settings/first-run.tsx)", "users come after the first runtime"],
  ["No Git integration", "a runtime has the one of its account"],
  ["No entries yet", "signing in is written"],
  ["No deployments in this time", "the first runtime deploys what it is"],
  ["No routes", "one edge serves all runtimes"],
  ["No certificates", "one edge serves all runtimes"],
  ["No refusals", "one edge serves all runtimes"],
  ["Route", "it is there for a moment, while the route goes"],
  ["Permission denied", "pages say it in their own words before they ask"],
  ["/applications/$name", "a link of Argo CD leads on to the page of the application"],
  ["/applications/$namespace/$name", "a link of Argo CD leads on to the page of the application"],
]);

// isExcused: of a title with something in it, only what is written counts.
function isExcused(words: string): boolean {
  const written = words.replace(/\$\{[^}]*\}/g, "…");
  return unreached.has(written) || unreached.has(written.replace(/ \([^)]*\)$/, ""));
}

test("every page, dialog and empty state was looked at", () => {
  const all = scans();
  const missing = [...routes().filter((one) => one.words !== "/"), ...titles()]
    .filter((one) => !isSeen(one, all))
    .map((one) => one.words)
    .filter((words) => !isExcused(words));
  expect(missing).toEqual([]);
});
