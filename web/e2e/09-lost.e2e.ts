import type { Page } from "@playwright/test";
import { at, expect, test } from "./support/fixtures";
import { accessible, picture } from "./support/look";
import { deletePods, refresh, startPlatform, stopPlatform, valueInCluster } from "./support/world";

// follows deletes the Pods of the application and waits until the tree has others. It
// gives the milliseconds from when the cluster had deleted them.
async function follows(page: Page): Promise<number> {
  const pods = page.getByRole("tree", { name: "Resources" }).getByRole("treeitem").filter({ hasText: /^Pod/ });
  await expect(pods.first()).toBeVisible();
  const gone = await deletePods("web");
  const began = Date.now();
  for (const name of gone) await expect(pods.filter({ hasText: name })).toHaveCount(0);
  await expect(pods.first()).toBeVisible();
  return Date.now() - began;
}

test.describe("an application that changes", () => {
  // A busy machine can lose the runtime's heartbeat meanwhile, which the page shows.
  test.use({ mayJump: true });

  test("an application follows its cluster", async ({ admin: page }) => {
    await page.goto(at("/applications/prod/slipway/web"));
    const took = await follows(page);
    console.log(`the tree has other Pods ${took} ms after the cluster`);
    // Other tests run on the machine, except for measurements.
    if (process.env["CONSOLE_LONG"] === "1") expect(took).toBeLessThan(2_000);

    // Kubernetes events of an open resource are updated too.
    await page
      .getByRole("treeitem")
      .filter({ hasText: /^ReplicaSet/ })
      .first()
      .click();
    const set = page.getByRole("dialog", { name: /^ReplicaSet web/ });
    await set.getByRole("tab", { name: "Events", exact: true }).click();
    const made = set.getByRole("row").filter({ hasText: "SuccessfulCreate" });
    await expect(made.first()).toBeVisible();
    const before = await made.count();
    await deletePods("web");
    await expect.poll(() => made.count()).toBeGreaterThan(before);
    await page.keyboard.press("Escape");
    await expect(set).toBeHidden();
  });
});

test.describe("a connection that is lost", () => {
  test.use({ mayJump: true });

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

  test("an application follows its cluster again after a lost connection", async ({ admin: page }) => {
    await page.goto(at("/applications/prod/slipway/web"));
    await expect(page.getByRole("region", { name: "State" })).toContainText("Live");
    await stopPlatform();
    try {
      await expect(page.getByText("The connection to the platform is lost.")).toBeVisible();
    } finally {
      await startPlatform();
    }
    // Nobody touches the page.
    await expect(page.getByText("The connection to the platform is lost.")).toBeHidden();
    await expect(page.getByRole("region", { name: "State" })).toContainText("Live");
    await follows(page);
  });
});
