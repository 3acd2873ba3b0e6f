import type { Browser, Page } from "@playwright/test";
import { codeOf } from "./support/authenticator";
import { at, expect, test, textOf } from "./support/fixtures";
import { look } from "./support/look";
import { SecurityKey } from "./support/passkey";
import { startPlatform, stopPlatform, world } from "./support/world";

// What the user keeps from one spec to the next.
let secret = "";
let recovery: string[] = [];

// enter types email and password into the sign-in page of a new browser.
async function enter(browser: Browser): Promise<Page> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  await page.goto(at("/settings"));
  await page.getByLabel("Email").fill(world.user.email);
  await page.getByLabel("Password").fill(world.user.password);
  await page.keyboard.press("Enter");
  return page;
}

// addApp goes through the page that adds an authenticator app, from the password on.
async function addApp(page: Page, pictures: string): Promise<void> {
  await expect(page.getByRole("heading", { name: "Add a second factor" })).toBeVisible();
  await look(page, pictures);
  await page.getByLabel("Password").fill("not the password");
  await page.getByRole("button", { name: "Set up an authenticator app" }).click();
  await expect(page.getByRole("alert")).toContainText("password is wrong");
  await page.getByLabel("Password").fill(world.user.password);
  await page.getByRole("button", { name: "Set up an authenticator app" }).click();
  await expect(page.getByRole("img", { name: "QR code for the app" })).toBeVisible();
  secret = await textOf(page.getByRole("region", { name: "Key" }).locator("code"));
  await look(page, `${pictures}-scan`);
  await page.getByLabel("Code", { exact: true }).fill("12345");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("code is wrong");
  await page.getByLabel("Code", { exact: true }).fill(codeOf(secret));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Recovery codes" })).toBeVisible();
  await look(page, `${pictures}-codes`);
  recovery = (await textOf(page.getByRole("region", { name: "Recovery codes" }).locator("code"))).split("\n");
  expect(recovery).toHaveLength(10);
  await page.getByRole("button", { name: "I have them" }).click();
  await expect(page.getByRole("cell", { name: "Authenticator app", exact: true })).toBeVisible();
}

test("an authenticator app is added", async ({ user: page }) => {
  await page.goto(at("/settings"));
  await page.getByRole("link", { name: "Add a second factor" }).click();
  await addApp(page, "second-factor");
  await look(page, "settings-second-factor");
});

test("sign in with the code of the app, and with a recovery code", async ({ browser }) => {
  const page = await enter(browser);
  await expect(page.getByLabel("Code", { exact: true })).toBeVisible();
  await look(page, "sign-in-code");
  await page.getByLabel("Code", { exact: true }).fill("000 00");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("code is wrong");
  // Once: half a minute later the next one is another.
  const code = codeOf(secret, 1);
  await page.getByLabel("Code", { exact: true }).fill(code);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/console\/settings/);
  await page.context().close();

  const again = await enter(browser);
  await again.getByLabel("Code", { exact: true }).fill(code);
  await again.keyboard.press("Enter");
  await expect(again.getByRole("alert")).toContainText("was used before");
  await again.getByLabel("Code", { exact: true }).fill(recovery[0] ?? "");
  await again.keyboard.press("Enter");
  await expect(again).toHaveURL(/\/console\/settings/);

  await again.getByRole("button", { name: "New recovery codes" }).click();
  const form = again.getByRole("dialog", { name: "New recovery codes" });
  await look(again, "settings-recovery-codes");
  await form.getByLabel("Password").fill(world.user.password);
  await form.getByRole("button", { name: "Create codes" }).click();
  const shown = again.getByRole("dialog", { name: "Recovery codes", exact: true });
  await expect(shown).toBeVisible();
  await look(again, "settings-recovery-codes-new");
  const codes = (await textOf(shown.locator("pre code"))).split("\n");
  expect(codes.filter((code) => recovery.includes(code))).toEqual([]);
  recovery = codes;
  await shown.getByRole("button", { name: "I have them" }).click();
  await again.getByRole("button", { name: "Remove Authenticator app" }).click();
  const remove = again.getByRole("dialog", { name: "Remove Authenticator app" });
  await look(again, "settings-factor-remove");
  await remove.getByLabel("Password").fill("not the password");
  await remove.getByRole("button", { name: "Remove it" }).click();
  await expect(remove.getByRole("alert")).toContainText("password is wrong");
  await again.context().close();
});

// addPasskey goes from the settings through the page that adds a passkey, up to its button.
async function addPasskey(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: "Add a second factor" }).click();
  await page.getByLabel("Password").fill(world.user.password);
  await page.getByRole("button", { name: "Set up a passkey" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create the passkey" }).click();
}

test("passkeys are added, sign in, and are removed", async ({ browser }) => {
  const page = await enter(browser);
  await page.getByLabel("Code", { exact: true }).fill(recovery[0] ?? "");
  await page.keyboard.press("Enter");
  const key = await SecurityKey.plugIn(page);
  await addPasskey(page, "Blue key");
  await expect(page.getByRole("cell", { name: "Blue key", exact: true })).toBeVisible();
  await look(page, "settings-passkey");
  const [blue] = await key.credentials();
  if (!blue) throw new Error("there is no passkey on the key");
  expect(blue.rpId).toBe("localhost");

  // The browser creates no second passkey on the same key.
  await addPasskey(page, "Blue key again");
  await expect(page.getByRole("alert")).toContainText("has a passkey of yours already");
  await look(page, "second-factor-passkey");
  await key.unplug();
  await SecurityKey.plugIn(page);
  await page.getByRole("button", { name: "Create the passkey" }).click();
  await expect(page.getByRole("cell", { name: "Blue key again", exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Remove Blue key again" }).click();
  const remove = page.getByRole("dialog", { name: "Remove Blue key again" });
  await remove.getByLabel("Password").fill(world.user.password);
  await remove.getByRole("button", { name: "Remove it" }).click();
  await expect(page.getByRole("cell", { name: "Blue key again", exact: true })).toHaveCount(0);
  await page.context().close();

  const again = await enter(browser);
  const plugged = await SecurityKey.plugIn(again);
  await expect(again.getByRole("button", { name: "Use a passkey" })).toBeVisible();
  await look(again, "sign-in-passkey");
  await plugged.put(blue);
  await again.getByRole("button", { name: "Use a passkey" }).click();
  await expect(again).toHaveURL(/\/console\/settings/);
  const [used] = await plugged.credentials();
  expect(used?.signCount).toBeGreaterThan(blue.signCount);
  await again.context().close();

  // A copy that was made before has a counter that is behind.
  const thief = await enter(browser);
  await (await SecurityKey.plugIn(thief)).put(blue);
  await thief.getByRole("button", { name: "Use a passkey" }).click();
  await expect(thief.getByRole("alert")).toContainText("may have been copied");
  await expect(thief).toHaveURL(/sign-in/);
  await thief.getByLabel("Code", { exact: true }).fill(recovery[1] ?? "");
  await thief.keyboard.press("Enter");
  await expect(thief).toHaveURL(/\/console\/settings/);
  await thief.context().close();
});

test("an admin resets the second factor", async ({ admin: page, browser }) => {
  await page.goto(at("/settings?section=users"));
  await expect(page.getByRole("row").filter({ hasText: world.user.email })).toContainText("second factor");
  await page.getByRole("button", { name: `Actions for ${world.user.email}` }).click();
  await page.getByRole("menuitem", { name: "Reset the second factor" }).click();
  const form = page.getByRole("dialog", { name: /^Reset the second factor of/ });
  await expect(form).toBeVisible();
  await look(page, "settings-factor-reset");
  await form.getByRole("button", { name: "Reset the second factor" }).click();
  await expect(form).toBeHidden();
  const theirs = await enter(browser);
  await expect(theirs).toHaveURL(/\/console\/settings/);
  await theirs.context().close();
});

test.describe("with another policy", () => {
  test.use({ mayJump: true });

  test("a second factor that is required", async ({ browser }) => {
    await stopPlatform();
    try {
      await startPlatform("--identity.secondFactor=required");
      const page = await enter(browser);
      await expect(page).toHaveURL(/second-factor/);
      await page.goto(at("/runtimes"));
      await expect(page).toHaveURL(/second-factor/);
      await addApp(page, "second-factor-required");
      await page.getByRole("button", { name: "Remove Authenticator app" }).click();
      const remove = page.getByRole("dialog", { name: "Remove Authenticator app" });
      const submit = async () => {
        await remove.getByLabel("Password").fill(world.user.password);
        await remove.getByRole("button", { name: "Remove it" }).click();
      };
      await submit();
      await expect(remove.getByRole("alert")).toContainText("requires a second factor");
      await stopPlatform();
      await startPlatform();
      await submit();
      await expect(page.getByText("You sign in with the password only.")).toBeVisible();
      await page.context().close();
    } finally {
      await stopPlatform();
      await startPlatform();
    }
  });

  test("single sign-on only", async ({ browser }) => {
    const { issuer, clientID, clientSecret } = world.provider;
    await stopPlatform();
    try {
      await startPlatform(
        "--identity.passwords=disabled",
        `--oidc.issuer=${issuer}`,
        `--oidc.clientID=${clientID}`,
        `--oidc.clientSecret=${clientSecret}`,
        "--oidc.createUsers=true",
        "--oidc.allowedDomains=example.com",
      );
      const context = await browser.newContext({ ignoreHTTPSErrors: true });
      const page = await context.newPage();
      await page.goto(at("/settings"));
      const button = page.getByRole("link", { name: "Sign in with Single sign-on" });
      await expect(button).toBeVisible();
      await expect(page.getByLabel("Password")).toHaveCount(0);
      await look(page, "sign-in-sso");
      await button.click();
      await expect(page.getByText("You sign in through the identity provider.")).toBeVisible();
      await expect(page.getByRole("link", { name: "Add a second factor" })).toHaveCount(0);
      await context.close();
    } finally {
      await stopPlatform();
      await startPlatform();
    }
  });
});
