import { at, expect, test } from "./support/fixtures";
import { accessible, picture } from "./support/look";
import { refresh, startPlatform, stopPlatform, valueInCluster } from "./support/world";

test("a lost connection is seen, and what comes after it is true", async ({ admin: page }) => {
  await page.goto(at("/runtimes"));
  const online = page.getByRole("row").filter({ hasText: "prod" }).getByRole("img", { name: "online" });
  await expect(online).toBeVisible();
  await stopPlatform();
  let commit = "";
  try {
    await expect(page.getByText("The connection to the platform is lost.")).toBeVisible();
    // What was there stays.
    await expect(page.getByRole("link", { name: "prod", exact: true })).toBeVisible();
    await accessible(page, "lost");
    await picture(page, "lost");
    await page.getByRole("button", { name: "Try now" }).click();
    await expect(page.getByText("The connection to the platform is lost.")).toBeVisible();
    // Git is delivered without the platform.
    commit = await refresh("web", "third", "Change it while nobody looks");
    await expect.poll(() => valueInCluster("web")).toBe("third");
  } finally {
    await startPlatform();
  }
  await expect(page.getByText("The connection to the platform is lost.")).toBeHidden();
  await expect(online).toBeVisible();

  // The session outlives the platform, and the runtime is reached again.
  await page.getByRole("link", { name: "Applications" }).click();
  await page.getByRole("link", { name: "web", exact: true }).click();
  const state = page.getByRole("region", { name: "State" });
  for (const words of ["Live", "Healthy", commit.slice(0, 8), "Change it while nobody looks"]) {
    await expect(state).toContainText(words);
  }
});
