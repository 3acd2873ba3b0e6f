import type { Page } from "@playwright/test";
import { at, expect, test } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { push, valueInCluster, world } from "./support/world";

const namespace = "slipway";
const of = (name: string): string => at(`/applications/prod/${namespace}/${name}`);

// Roles of rows and cells are the same in a table and in one that is virtual.
const row = (page: Page, name: string) =>
  page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });

test("the list is true, and follows what is chosen", async ({ admin: page }) => {
  await page.goto(at("/applications"));
  await expect(row(page, "web")).toContainText("Healthy");
  await expect(row(page, "web")).toContainText("Synced");
  await expect(row(page, "manual")).toContainText("Out of sync");
  await look(page, "applications");
  await onPhone(page, "applications-phone");

  await page.getByRole("searchbox").first().fill("manual");
  await expect(row(page, "web")).toHaveCount(0);
  await expect(page).toHaveURL(/query=manual/);
  await page.reload();
  await expect(row(page, "manual")).toBeVisible();
  await expect(row(page, "web")).toHaveCount(0);

  await page.goto(at("/applications?sync=OutOfSync"));
  await expect(row(page, "manual")).toBeVisible();
  await expect(row(page, "web")).toHaveCount(0);

  await page.goto(at("/applications?query=nothing-has-this-name"));
  await expect(page.getByRole("heading", { name: "No matching applications" })).toBeVisible();
  await look(page, "applications-none-fits");
  await page.getByRole("button", { name: "Health", exact: true }).click();
  await expect(page.getByRole("dialog", { name: "Filter by health" })).toBeVisible();
  await look(page, "applications-filter");

  await page.goto(at("/applications?view=cards"));
  await expect(page.getByRole("link", { name: "web", exact: true })).toBeVisible();
  await look(page, "applications-cards");
});

test("what an application has, without its secrets", async ({ admin: page }) => {
  await page.goto(of("web"));
  const tree = page.getByRole("tree", { name: "Resources" });
  for (const kind of ["Deployment", "ReplicaSet", "Pod", "Service", "Ingress", "ConfigMap", "Secret"]) {
    await expect(
      tree
        .getByRole("treeitem")
        .filter({ hasText: new RegExp(`^${kind}`) })
        .first(),
    ).toBeVisible();
  }
  await look(page, "application");

  await tree
    .getByRole("treeitem")
    .filter({ hasText: /^Secret/ })
    .first()
    .click();
  const secret = page.getByRole("dialog", { name: "Secret web" });
  await expect(secret).toContainText("password");
  for (const tab of ["Live", "Desired", "Diff"]) {
    await secret.getByRole("tab", { name: tab, exact: true }).click();
    await expect(secret.getByRole("status", { name: "Loading" })).toHaveCount(0);
    const shown = `${await secret.textContent()} ${await secret.innerHTML()}`;
    expect(shown).not.toContain(world.hidden);
    expect(shown).not.toContain(Buffer.from(world.hidden).toString("base64"));
  }
  await secret.getByRole("tab", { name: "Events", exact: true }).click();
  await expect(secret.getByRole("heading", { name: "No events" })).toBeVisible();
  await look(page, "resource-no-events");
  await page.keyboard.press("Escape");
  await expect(secret).toBeHidden();

  await tree
    .getByRole("treeitem")
    .filter({ hasText: /^Deployment/ })
    .first()
    .click();
  const deployment = page.getByRole("dialog", { name: "Deployment web" });
  await deployment.getByRole("tab", { name: "Logs" }).click();
  await expect(deployment.getByText(/demo|listen|serv/i).first()).toBeVisible();
  await look(page, "resource-logs");
  await deployment.getByRole("tab", { name: "Diff", exact: true }).click();
  await expect(deployment.getByRole("heading", { name: "No differences" })).toBeVisible();
  await look(page, "resource-same");
  await page.keyboard.press("Escape");
  await tree.getByRole("treeitem").filter({ hasText: /^Pod/ }).first().click();
  const pod = page.getByRole("dialog", { name: /^Pod web/ });
  for (const tab of ["Live", "Desired", "Diff", "Events"]) {
    await pod.getByRole("tab", { name: tab, exact: true }).click();
    await expect(pod.getByRole("status", { name: "Loading" })).toHaveCount(0);
    await look(page, `resource-pod-${tab.toLowerCase()}`);
  }
  await page.keyboard.press("Escape");
  await page.getByRole("searchbox", { name: "Find resources" }).fill("nothing-has-this-name");
  await expect(page.getByRole("heading", { name: "No matching resources" })).toBeVisible();
  await look(page, "application-no-resource-fits");

  for (const tab of ["Diff", "Events", "Logs", "Details"]) {
    await page.getByRole("tab", { name: tab, exact: true }).click();
    await look(page, `application-${tab.toLowerCase()}`);
  }

  await page.goto(`${of("web")}?tab=releases`);
  await expect(page.getByRole("heading", { name: "No releases" })).toBeVisible();
  await look(page, "application-releases-empty");
});

test("run an action of a resource", async ({ admin: page }) => {
  await page.goto(of("web"));
  const deployment = page
    .getByRole("treeitem")
    .filter({ hasText: /^Deployment/ })
    .first();
  await deployment.getByRole("button", { name: "Actions for Deployment web" }).click();
  await expect(page.getByRole("menuitem", { name: "Scale", exact: true })).toBeVisible();
  await look(page, "resource-actions");
  await page.getByRole("menuitem", { name: "Restart", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Restart Deployment web" });
  await look(page, "resource-action");
  await dialog.getByRole("button", { name: "Restart", exact: true }).click();
  await expect(dialog).toBeHidden();
  await deployment.click();
  const opened = page.getByRole("dialog", { name: "Deployment web" });
  await expect(opened).toContainText("restartedAt");
  await expect(opened.getByRole("button", { name: "Actions for Deployment web" })).toBeVisible();

  // A parameter is required.
  await opened.getByRole("button", { name: "Actions for Deployment web" }).click();
  await page.getByRole("menuitem", { name: "Scale", exact: true }).click();
  const scale = page.getByRole("dialog", { name: "Scale Deployment web" });
  await scale.getByRole("button", { name: "Scale", exact: true }).click();
  await expect(scale.getByText("Enter replicas.")).toBeVisible();
  await scale.getByRole("button", { name: "Cancel" }).click();
});

test("links to Argo CD's console lead to the same application", async ({ admin: page, context }) => {
  // Argo CD had it in its own namespace, and the runtime has it in another.
  await page.goto(`${world.url}/applications/argocd/web?view=tree&resource=`);
  await expect(page).toHaveURL(of("web"));
  await expect(page.getByRole("tree", { name: "Resources" })).toBeVisible();
  await page.goto(`${world.url}/applications/web`);
  await expect(page).toHaveURL(of("web"));
  await page.goto(`${world.url}/applications/argocd/nothing-has-this-name`);
  await expect(page.getByRole("heading", { name: "No matching applications" })).toBeVisible();

  // A browser without a session signs in first, and goes on to the application.
  await context.clearCookies();
  await page.goto(`${world.url}/applications/argocd/web`);
  await expect(page).toHaveURL(/sign-in\?next=.*applications%2Fargocd%2Fweb/);
});

test.describe("a link to an object", () => {
  // The dialog is open before its manifest is there, and grows with it.
  test.use({ mayJump: true });
  test("a link to an object of Argo CD's console opens it", async ({ admin: page }) => {
    await page.goto(
      `${world.url}/applications/${namespace}/web?resource=kind%3APod&node=apps%2FDeployment%2F${world.target}%2Fweb%2F0`,
    );
    await expect(page.getByRole("dialog", { name: "Deployment web" })).toBeVisible();
  });
});

test("a push is live, and the page shows it by itself", async ({ admin: page }) => {
  await page.goto(of("web"));
  const state = page.getByRole("region", { name: "State" });
  await expect(state).toContainText("Live");
  const commit = await push("web", "second", "Change what the web says");
  await expect(state).toContainText(commit.slice(0, 8));
  await expect(state).toContainText("Change what the web says");
  await expect(state).toContainText("Synced");
  await expect.poll(() => valueInCluster("web")).toBe("second");
});

test("sync what was pushed, and roll it back", async ({ admin: page }) => {
  await page.goto(of("manual"));
  const state = page.getByRole("region", { name: "State" });
  const sync = async () => {
    await page.getByRole("button", { name: "Sync", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Sync manual" });
    await expect(dialog).toBeVisible();
    await look(page, "application-sync");
    await dialog.getByRole("button", { name: "Sync", exact: true }).click();
    await expect(dialog).toBeHidden();
  };
  await expect(state).toContainText("Out of sync");
  await page.getByRole("tab", { name: "History", exact: true }).click();
  await expect(page.getByRole("heading", { name: "No sync yet" })).toBeVisible();
  await look(page, "application-history-empty");
  await page.getByRole("tab", { name: "Resources", exact: true }).click();
  await page
    .getByRole("treeitem")
    .filter({ hasText: /^ConfigMap/ })
    .first()
    .click();
  await expect(page.getByRole("heading", { name: "Not in the cluster" })).toBeVisible();
  await look(page, "resource-missing");
  await page.keyboard.press("Escape");
  await sync();
  await expect(state).toContainText("Synced");
  await expect.poll(() => valueInCluster("manual")).toBe("first");

  const commit = await push("manual", "second", "The second value");
  await expect(state).toContainText("Out of sync");
  await page.getByRole("tab", { name: "Diff", exact: true }).click();
  await expect(page.getByRole("tabpanel")).toContainText("second");
  await sync();
  await expect(state).toContainText("Synced");
  await expect(state).toContainText(commit.slice(0, 8));
  await expect.poll(() => valueInCluster("manual")).toBe("second");

  await page.getByRole("tab", { name: "History" }).click();
  const history = page.getByRole("table", { name: "History" });
  await expect(history.getByRole("row").nth(1)).toContainText("The second value");
  await expect(history.getByRole("row").nth(1)).toContainText(world.admin.email);
  await look(page, "application-history");
  await history
    .getByRole("button", { name: /^Roll back to sync/ })
    .first()
    .click();
  const rollback = page.getByRole("dialog", { name: /^Roll back/ });
  await rollback.getByRole("button", { name: "Dry run", exact: true }).click();
  await expect(rollback.getByRole("button", { name: "Roll back", exact: true })).toBeEnabled();
  await look(page, "application-rollback");
  await rollback.getByRole("button", { name: "Roll back", exact: true }).click();
  await expect(rollback).toBeHidden();
  await expect.poll(() => valueInCluster("manual")).toBe("first");
  await expect(state).toContainText("Out of sync");
});

test("an application that there is not", async ({ admin: page }) => {
  await page.goto(of("nobody"));
  await expect(page.getByRole("heading", { name: "Application not found" })).toBeVisible();
  await look(page, "application-missing");
});
