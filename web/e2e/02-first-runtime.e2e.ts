import { at, expect, test } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { checksRun, choose, commandFor, takeKey } from "./support/wizard";
import { install, world } from "./support/world";

test("an account without runtimes says what to do", async ({ admin: page }) => {
  for (const [path, name] of [
    ["/runtimes", "runtimes-empty"],
    ["/applications", "applications-empty"],
    ["/promotions", "promotions-empty"],
    ["/traffic", "traffic-empty"],
    ["/history", "history-empty"],
  ] as const) {
    await page.goto(at(path));
    await look(page, name);
  }
  await page.goto(at("/runtimes"));
  await page.getByRole("link", { name: "Add runtime" }).first().click();
  await expect(page).toHaveURL(/\/console\/install/);
});

test("the first runtime, through a tunnel, to the end of its installation", async ({ admin: page }) => {
  test.slow(); // Helm waits until all Pods are ready
  await page.goto(at("/install"));
  await expect(page.getByRole("heading", { name: "Install the first runtime" })).toBeVisible();

  await page.getByLabel("Shared repository").fill("not an address");
  await page.getByRole("button", { name: "Save the Git settings" }).click();
  await expect(page.getByText(/^Write <repository>|^Remove blanks/)).toBeVisible();
  await page.getByLabel("Shared repository").fill(world.git.shared);
  await page.getByRole("button", { name: /Git provider/ }).click();
  await page.getByRole("option", { name: "GitHub", exact: true }).click();
  await page.getByLabel("API URL").fill(world.git.api);
  await page.getByRole("button", { name: "Save the Git settings" }).click();
  await expect(page.getByText("All runtimes of the account share")).toBeVisible();

  await page.getByLabel("Runtime name").fill("No Name");
  await expect(page.getByText(/Lower-case letters, digits and dashes; it begins/)).toBeVisible();
  await choose(page, { name: "prod", namespace: "slipway", mode: "Tunnel" });
  // What was typed outlives a reload; a key would not.
  await page.reload();
  await expect(page.getByLabel("Runtime name")).toHaveValue("prod");
  const key = await takeKey(page, "prod");
  await page.getByRole("tab", { name: "Terraform" }).click();
  expect(await commandFor(page, "Resource for Terraform")).toContain('resource "helm_release"');
  await page.getByRole("tab", { name: "Slipway" }).click();
  expect(await commandFor(page, "Commands for Slipway")).toContain("slipway runtime install prod");
  await page.getByRole("tab", { name: "Helm" }).click();
  await look(page, "wizard");
  const command = await commandFor(page, "Commands for Helm");
  expect(command).not.toContain(key);

  await page.getByRole("button", { name: "Wait for prod" }).click();
  await expect(page.getByText("Waiting for prod.")).toBeVisible();
  await look(page, "wizard-waiting");
  expect(await install(command, key)).toEqual({ name: "prod", namespace: "slipway" });
  await expect(page.getByText("prod is connected")).toBeVisible();
  await expect(page.getByText("0 of 3 steps completed.")).toBeVisible();
  // Checks of the runtime itself, as they come.
  await checksRun(page);

  await page.getByRole("button", { name: "Set credentials" }).click();
  const credentials = page.getByRole("dialog", { name: "Git credentials of the runtime" });
  await credentials.getByLabel("Token").fill("ghp_of_nobody");
  await credentials.getByRole("button", { name: "Store them" }).click();
  await expect(credentials.getByRole("alert")).toBeVisible();
  await credentials.getByLabel("Token").fill(world.git.runtimeToken);
  await credentials.getByText("SSH, or a self-hosted Git server").click();
  await credentials.getByLabel("Certificate authorities").fill(world.authorities);
  await credentials.getByRole("button", { name: "Store them" }).click();
  await expect(credentials).toBeHidden();
  await expect(page.getByText("1 of 3 steps completed.")).toBeVisible();

  await page.getByRole("button", { name: "Register your token" }).click();
  const token = page.getByRole("dialog", { name: "Your token of GitHub" });
  await token.getByLabel("Token").fill(world.git.userToken);
  await token.getByRole("button", { name: "Register the token" }).click();
  await expect(token).toBeHidden();
  await expect(page.getByText("2 of 3 steps completed.")).toBeVisible();

  await page.getByRole("button", { name: "Configure as Application" }).click();
  await expect(page.getByText("All steps completed.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Check again" })).toBeVisible();
  await look(page, "wizard-complete");
  expect(await page.content()).not.toContain(world.git.runtimeToken);
});

test.describe("the runtime's own application", () => {
  // Its first sync may begin and end while the page is open, and the panel of the operation comes and goes with it.
  test.use({ mayJump: true });
  test("the runtime is an application of itself, and stays what Helm installed", async ({ admin: page }) => {
    await page.goto(at("/applications/prod/slipway/prod"));
    const state = page.getByRole("region", { name: "State" });
    await expect(state).toContainText("Synced");
    await expect(state).toContainText("Healthy");
  });
});

test("the runtimes", async ({ admin: page }) => {
  await page.goto(at("/runtimes"));
  const row = page.getByRole("row").filter({ hasText: "prod" });
  await expect(row.getByRole("img", { name: "online" })).toBeVisible();
  await expect(row).toContainText("Tunnel");
  await expect(row).toContainText("Configuration runtime");
  await look(page, "runtimes");
  await onPhone(page, "runtimes-phone");
});
