// What is looked at on every page: accessibility in both themes, and its picture.

import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect } from "./fixtures";
import { keep } from "./scanned";
import { world } from "./world";

/** settled waits until a page has loaded its data. */
export async function settled(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
}

/** accessible fails when axe finds something serious: by all rules in light, and in dark by those about colours, in which alone the page differs. */
export async function accessible(page: Page, name: string): Promise<void> {
  for (const colorScheme of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme });
    // Its other mode opens a page for each result.
    const axe = new AxeBuilder({ page }).setLegacyMode(true).options({ resultTypes: ["violations"] });
    if (colorScheme === "dark") axe.withRules(["color-contrast", "link-in-text-block"]);
    const { violations } = await axe.analyze();
    const serious = violations
      .filter((one) => one.impact === "serious" || one.impact === "critical")
      .map(
        (one) =>
          `${one.id}: ${one.help}\n  ${one.nodes.map((node) => `${node.target.join(" ")} ${node.html}`).join("\n  ")}`,
      );
    expect(serious, `${name}, ${colorScheme}`).toEqual([]);
  }
  await keep(page, name);
}

// What docs/console.md and its neighbours may show.
const documented = new Set([
  "sign-in",
  "runtimes",
  "runtimes-phone",
  "runtime",
  "topology",
  "wizard",
  "wizard-complete",
  "applications",
  "applications-phone",
  "applications-cards",
  "application",
  "application-history",
  "release-canary",
  "release-rolled-back",
  "traffic",
  "traffic-chain",
  "explain",
  "history-dora",
  "promotions",
  "settings",
  "lost",
]);

/** picture takes a screenshot with CONSOLE_SCREENSHOTS=1. */
export async function picture(page: Page, name: string): Promise<void> {
  if (!world.documents) return;
  const folder = documented.has(name) ? world.documents : world.images;
  await page.screenshot({ path: `${folder}/${name}.png`, animations: "disabled", caret: "hide" });
}

/** look is what every page goes through. */
export async function look(page: Page, name: string): Promise<void> {
  await settled(page);
  await accessible(page, name);
  await fits(page, name);
  await picture(page, name);
}

/** fits fails when the page is wider than the screen. */
export async function fits(page: Page, name: string): Promise<void> {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(over, `${name}: pixels beyond the screen`).toBeLessThanOrEqual(0);
}

/** onPhone scans the page at the width of a phone. */
export async function onPhone(page: Page, name: string): Promise<void> {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await settled(page);
  await fits(page, name);
  await picture(page, name);
  await page.setViewportSize({ width: 360, height: 780 });
  await fits(page, `${name} at 360`);
  if (before) await page.setViewportSize(before);
}
