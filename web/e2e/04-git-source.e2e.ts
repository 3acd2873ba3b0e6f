import { at, expect, test } from "./support/fixtures";
import { look } from "./support/look";
import { world } from "./support/world";

test("a Git Source brings its applications", async ({ admin: page }) => {
  await page.goto(at("/runtimes/prod?tab=git-sources"));
  await expect(page.getByRole("button", { name: "Add a Git Source" })).toBeEnabled();
  await look(page, "git-sources-before");
  await page.getByRole("button", { name: "Add a Git Source" }).click();
  const form = page.getByRole("dialog", { name: "Add a Git Source" });
  await form.getByRole("button", { name: "Add it" }).click();
  await expect(form.getByRole("alert")).toBeVisible();
  await look(page, "git-source-refused");

  await form.getByLabel("Name", { exact: true }).fill("apps");
  await form.getByLabel("Repository", { exact: true }).fill(world.git.apps);
  await form.getByLabel("Path").fill("apps");
  await form.getByRole("button", { name: "Add it" }).click();
  await expect(form).toBeHidden();

  const sources = page.getByRole("table", { name: "Git Sources" });
  const row = sources.getByRole("row").filter({ has: page.getByRole("link", { name: "apps", exact: true }) });
  await expect(row).toContainText("Synced");
  await look(page, "git-sources");
});

test("the tabs of a runtime, its topology, and one that there is not", async ({ admin: page }) => {
  await page.goto(at("/runtimes/prod"));
  await look(page, "runtime");
  await page.getByRole("tab", { name: "Managed Clusters" }).click();
  await expect(page).toHaveURL(/tab=clusters/);
  await look(page, "managed-clusters");

  await page.goto(at("/runtimes?view=topology"));
  await expect(page.getByRole("tab", { name: "Topology" })).toHaveAttribute("aria-selected", "true");
  await expect(page.getByRole("link", { name: /prod/ }).first()).toBeVisible();
  await look(page, "topology");

  await page.goto(at("/runtimes/nobody"));
  await expect(page.getByRole("heading", { name: "Runtime not found" })).toBeVisible();
  await look(page, "runtime-missing");
});
