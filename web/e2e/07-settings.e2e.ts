import { at, expect, test, textOf } from "./support/fixtures";
import { accessible, look } from "./support/look";
import { world } from "./support/world";

test("a user is added, and chooses a password", async ({ admin: page, browser }) => {
  await page.goto(at("/settings?section=users"));
  await page.getByRole("button", { name: "Add user" }).click();
  const form = page.getByRole("dialog", { name: "Add user" });
  await form.getByLabel("Email").fill(world.user.email);
  await form.getByLabel("Name").fill("Uma User");
  await look(page, "settings-user-add");
  await form.getByRole("button", { name: "Add user" }).click();
  const handed = page.getByRole("dialog", { name: "One-time password" });
  await handed.getByRole("button", { name: "Show the password" }).click();
  await look(page, "settings-user-password");
  const oneTime = await textOf(handed.getByTestId("secret"));
  await handed.getByRole("button", { name: "I have it" }).click();
  await expect(page.getByText(world.user.email)).toBeVisible();
  await look(page, "settings-users");

  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const theirs = await context.newPage();
  await theirs.goto(at("/"));
  await theirs.getByLabel("Email").fill(world.user.email);
  await theirs.getByLabel("Password").fill(oneTime);
  await theirs.keyboard.press("Enter");
  await theirs.getByLabel("The one-time password again").fill(oneTime);
  await theirs.getByLabel("New password", { exact: true }).fill(world.user.password);
  await theirs.getByLabel("Repeat new password").fill(world.user.password);
  await theirs.keyboard.press("Enter");
  await expect(theirs).toHaveURL(/\/console\/runtimes/);
  await context.close();
});

test("a key is shown once, works, and does not after it is revoked", async ({ admin: page, playwright }) => {
  await page.goto(at("/settings?section=keys"));
  await page.getByRole("button", { name: "Create key" }).click();
  const form = page.getByRole("dialog", { name: "Make an API key" });
  await form.getByLabel("Name").fill("reader");
  await look(page, "settings-key-make");
  await form.getByRole("button", { name: "Create key" }).click();
  const handed = page.getByRole("dialog", { name: "The key reader" });
  await handed.getByRole("button", { name: "Show the key" }).click();
  await accessible(page, "settings-key-made");
  const key = await textOf(handed.getByTestId("secret"));
  await handed.getByRole("button", { name: "I have it" }).click();
  await look(page, "settings-keys");
  expect(await page.content()).not.toContain(key);

  const program = await playwright.request.newContext({
    ignoreHTTPSErrors: true,
    extraHTTPHeaders: { Authorization: `Bearer ${key}` },
  });
  const ask = async () =>
    (await program.post(`${world.url}/slipway.platform.v1.RuntimeService/ListRuntimes`, { data: {} })).status();
  expect(await ask()).toBe(200);
  await page.getByRole("button", { name: "Revoke reader" }).click();
  await expect(page.getByRole("dialog", { name: "Revoke reader" })).toBeVisible();
  await look(page, "settings-key-revoke");
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await expect.poll(ask).toBe(401);
  await program.dispose();
});

test("the rest of the settings", async ({ admin: page }) => {
  await page.goto(at("/settings"));
  await look(page, "settings");
  await page.getByRole("tab", { name: "Git" }).click();
  await expect(page.getByRole("tabpanel")).toContainText("GitHub");
  await look(page, "settings-git");
  await page.getByRole("tab", { name: "Audit log" }).click();
  await expect(page.getByText("key.revoke").first()).toBeVisible();
  await look(page, "settings-audit");
  await page.getByRole("button", { name: "key.revoke" }).first().click();
  await expect(page.getByRole("dialog", { name: "key.revoke" })).toBeVisible();
  await look(page, "settings-audit-entry");
  await page.keyboard.press("Escape");
  await page.getByLabel("Who").fill("nobody-has-this-name");
  await expect(page.getByRole("heading", { name: "Nothing matches" })).toBeVisible();
  await look(page, "settings-audit-none-fits");
});
