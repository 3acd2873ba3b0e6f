// What a browser loads first.

import { gzipSync } from "node:zlib";
import type { Page } from "@playwright/test";
import { at, expect, signIn, test } from "./support/fixtures";
import { gather, world } from "./support/world";

const mostJavaScript = 250 * 1024;

// scriptsOf is what a page loads, packed as the platform sends it.
async function scriptsOf(page: Page, path: string, ready: () => Promise<void>): Promise<number> {
  const sizes: Promise<number>[] = [];
  page.on("response", (response) => {
    if (response.request().resourceType() !== "script" || response.status() !== 200) return;
    expect(response.headers()["content-encoding"] ?? "small", response.url()).toMatch(/gzip|small/);
    sizes.push(response.body().then((body) => gzipSync(body, { level: 9 }).length));
  });
  await page.goto(at(path));
  await ready();
  const all = await Promise.all(sizes);
  expect(all.length).toBeGreaterThan(0);
  return all.reduce((sum, size) => sum + size, 0);
}

test("the first page is small", async ({ page }) => {
  const size = await scriptsOf(page, "/sign-in", () => expect(page.getByLabel("Password")).toBeVisible());
  console.log(`JavaScript of the sign-in page: ${(size / 1024).toFixed(1)} KB gzip`);
  expect(size).toBeLessThan(mostJavaScript);
});

test("the runtimes are small", async ({ page, context }) => {
  await signIn(context, world.admin);
  await gather("few", 20);
  const size = await scriptsOf(page, "/runtimes", () =>
    expect(page.getByRole("link", { name: "few", exact: true })).toBeVisible(),
  );
  console.log(`JavaScript of the runtimes page: ${(size / 1024).toFixed(1)} KB gzip`);
  expect(size).toBeLessThan(mostJavaScript);
});
