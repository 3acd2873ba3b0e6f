import { at, expect, signIn, test } from "./support/fixtures";
import { look } from "./support/look";
import { world } from "./support/world";

test("the first sign-in chooses a password", async ({ page }) => {
  await page.goto(at("/applications"));
  await expect(page).toHaveURL(/\/console\/sign-in\?next=/);
  await look(page, "sign-in");

  await page.getByLabel("Email").fill(world.admin.email);
  await page.getByLabel("Password").fill("not the password");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await expect(page).toHaveURL(/sign-in/);
  await look(page, "sign-in-refused");

  await page.getByLabel("Password").fill(world.admin.oneTime);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page).toHaveURL(/change-password/);
  await look(page, "change-password");

  await page.getByLabel("The one-time password again").fill(world.admin.oneTime);
  await page.getByLabel("New password", { exact: true }).fill("short");
  await page.getByLabel("Repeat new password").fill("short");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/change-password/);

  await page.getByLabel("New password", { exact: true }).fill(world.admin.password);
  await page.getByLabel("Repeat new password").fill(world.admin.password);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/console\/runtimes/);
});

test("sign in with the keyboard, to where one wanted to be, and sign out", async ({ page }) => {
  await page.goto(at("/applications?health=Degraded"));
  await page.getByLabel("Email").focus();
  await page.keyboard.type(world.admin.email);
  await page.keyboard.press("Tab");
  await page.keyboard.type(world.admin.password);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/console\/applications\?health=Degraded/);

  await page.getByRole("button", { name: "Your account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page).toHaveURL(/sign-in/);
  await page.goto(at("/runtimes"));
  await expect(page).toHaveURL(/sign-in/);
});

test("what the address asks for is never another site", async ({ page, context }) => {
  await signIn(context, world.admin);
  for (const next of ["https://example.com/", "//example.com/", "/console/../x", "javascript:alert(1)"]) {
    await page.goto(at(`/sign-in?next=${encodeURIComponent(next)}`));
    await expect(page).toHaveURL(new RegExp(`^${world.url}/console/`));
  }
});

test("an address that there is not says so", async ({ admin }) => {
  await admin.goto(at("/nowhere"));
  await expect(admin.getByRole("heading", { name: "Page not found" })).toBeVisible();
  await look(admin, "nowhere");
});

test("the settings of an account that has nothing yet", async ({ admin: page }) => {
  for (const [section, words] of [
    ["account", "Account"],
    ["keys", "No API keys"],
    ["git", "Git is not set up"],
  ] as const) {
    await page.goto(at(`/settings?section=${section}`));
    await expect(page.getByRole("heading", { name: words, exact: true })).toBeVisible();
    await look(page, `settings-${section}-empty`);
  }
  await page.getByRole("button", { name: "Set up Git" }).click();
  await expect(page.getByRole("dialog", { name: "Account Git settings" })).toBeVisible();
  await look(page, "settings-git-set-up");
  await page.goto(at("/oauth/callback?error=access_denied&state=unknown"));
  await look(page, "oauth-refused");
});
