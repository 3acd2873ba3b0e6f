import { at, expect, test } from "./support/fixtures";
import { look } from "./support/look";

test("a user sees what there is, and nothing to change what is not theirs", async ({ user: page }) => {
  await page.goto(at("/runtimes"));
  await expect(page.getByRole("link", { name: "prod", exact: true })).toBeVisible();
  await expect(page.getByRole("link", { name: "Add runtime" })).toHaveCount(0);
  await page.getByRole("link", { name: "prod", exact: true }).click();
  await page.getByRole("tab", { name: "Git Sources" }).click();
  await expect(page.getByText("Admins of the account change them.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Add a Git Source" })).toBeDisabled();
  await look(page, "runtime-user");

  await page.goto(at("/applications/prod/slipway/web"));
  await expect(page.getByRole("region", { name: "State" })).toContainText("Live");
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
