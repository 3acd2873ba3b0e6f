import type { Page } from "@playwright/test";
import { at, expect, signIn, test } from "./support/fixtures";
import { look } from "./support/look";
import { policy, world } from "./support/world";

test("a user sees what there is, and nothing to change what is not theirs", async ({ user: page }) => {
  await page.goto(at("/runtimes"));
  await expect(page.getByRole("link", { name: "prod", exact: true })).toBeVisible();
  await expect(page.getByRole("link", { name: "Add runtime" })).toHaveCount(0);
  await page.getByRole("link", { name: "prod", exact: true }).click();
  await page.getByRole("tab", { name: "Git Sources" }).click();
  await expect(page.getByText("Admins change them, and users with the rights")).toBeVisible();
  await expect(page.getByRole("button", { name: /Git Source/ })).toHaveCount(0);
  await look(page, "runtime-user");
  await page.getByRole("tab", { name: "Components" }).click();
  await expect(page.getByText("Logs of the runtime are for admins of the account.")).toBeVisible();
  await expect(page.getByRole("button", { name: /logs/i })).toHaveCount(0);
  await page.getByRole("tab", { name: "Clusters" }).click();
  await expect(page.getByText("Admins of the account add and remove clusters.")).toBeVisible();
  await expect(page.getByRole("button", { name: /cluster/i })).toHaveCount(0);
});

test("a user with rights on a project is offered its Git Sources", async ({ user: page }) => {
  const rule = (verb: string) => `p, ${world.user.email}, applications, ${verb}, default/*, allow\n`;
  await policy(rule("create") + rule("update"));
  await expect(async () => {
    await page.goto(at("/runtimes/prod?tab=git-sources"));
    await expect(page.getByText("Admins change them, and users with the rights")).toBeVisible();
    await expect(page.getByRole("button", { name: "Add a Git Source" })).toBeVisible();
  }).toPass();
  await page.getByRole("button", { name: "Actions for the Git Source apps" }).click();
  await expect(page.getByRole("menuitem")).toHaveText(["Change"]);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Add a Git Source" }).click();
  const form = page.getByRole("dialog", { name: "Add a Git Source" });
  await form.getByText("Files, project and destination").click();
  await expect(form.getByLabel("Project")).toBeVisible();
  await expect(form.getByText("Create the repository")).toHaveCount(0);
  await policy("");
});

const actions = ["Refresh", "Sync", "Terminate", "More actions"];

// offered is the actions and tabs of an application that a page has.
async function offered(page: Page): Promise<string[]> {
  await page.goto(at("/applications/prod/slipway/web"));
  await expect(page.getByRole("region", { name: "State" })).toContainText("Live");
  // Until the rights are known, the actions are there and disabled.
  await expect(page.getByRole("button", { name: "Refresh", disabled: true })).toHaveCount(0);
  const all = [page.getByRole("button"), page.getByRole("tab")];
  const names = await Promise.all(
    all.map((some) => some.evaluateAll((list) => list.map((one) => one.ariaLabel || one.textContent))),
  );
  return names.flat().filter((name): name is string => [...actions, "Logs"].includes(name ?? ""));
}

test("an application offers what the role allows", async ({ user: page, browser }) => {
  expect(await offered(page)).toEqual([]);
  await expect(page.getByRole("treeitem").first()).toBeVisible();
  await expect(page.getByRole("button", { name: /^Actions for/ })).toHaveCount(0);
  await look(page, "application-viewer");
  await page.getByRole("tab", { name: "History" }).click();
  await expect(page.getByRole("table", { name: "History" })).toBeVisible();
  await expect(page.getByRole("button", { name: /^Roll back/ })).toHaveCount(0);
  // An address with the tab of the logs shows the resources.
  await page.goto(at("/applications/prod/slipway/web?tab=logs"));
  await expect(page.getByRole("tab", { name: "Resources", selected: true })).toBeVisible();

  const admins = await browser.newContext({ ignoreHTTPSErrors: true });
  await signIn(admins, world.admin);
  const admin = await admins.newPage();
  const become = async (role: string) => {
    await page.goto("about:blank");
    await admin.goto(at("/settings?section=users"));
    await admin.getByRole("button", { name: `Actions for ${world.user.email}` }).click();
    await admin.getByRole("menuitem", { name: "Change", exact: true }).click();
    const form = admin.getByRole("dialog", { name: `Change ${world.user.email}` });
    await form.getByText(role, { exact: true }).click();
    await form.getByRole("button", { name: "Save" }).click();
    await expect(form).toBeHidden();
    await signIn(page.context(), world.user);
  };
  await become("Operator");
  expect(await offered(page)).toEqual(["Refresh", "Sync", "More actions", "Logs"]);
  await page.getByRole("button", { name: "More actions" }).click();
  await expect(page.getByRole("menuitem")).toHaveText(["Hard refresh"]);
  await page.keyboard.press("Escape");
  await become("Viewer");
  expect(await offered(page)).toEqual([]);
  await admins.close();
});

test("an address that is for admins says so in words", async ({ user: page }) => {
  await page.goto(at("/install"));
  await expect(page.getByText(/admin/i).first()).toBeVisible();
  await expect(page.getByRole("textbox")).toHaveCount(0);
  await look(page, "wizard-denied");
  for (const [section, words] of [
    ["users", "Only admins manage users"],
    ["audit", "Only admins can read the audit log"],
  ] as const) {
    await page.goto(at(`/settings?section=${section}`));
    await expect(page.getByRole("heading", { name: words })).toBeVisible();
    await look(page, `settings-${section}-denied`);
  }
});
