// The history: what a runtime has really deployed, and weeks of one that reports its past.

import type { Page } from "@playwright/test";
import { at, expect, test } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { policy, reportPast, world } from "./support/world";

const deployments = (page: Page) => page.getByRole("table", { name: "Deployments" });

async function choose(page: Page, label: string, option: string): Promise<void> {
  await page.getByRole("search", { name: "Filters" }).getByRole("button", { name: label }).click();
  await page.getByRole("option", { name: option, exact: true }).click();
}

test("deployments of an application, as they were", async ({ admin: page }) => {
  await page.goto(at("/applications/prod/slipway/web?tab=history"));
  await page.getByRole("link", { name: "all deployments of web" }).click();
  await expect(page).toHaveURL(/\/history\?runtime=prod&app=slipway/);
  const first = deployments(page).getByRole("row").nth(1);
  await expect(first).toContainText("Succeeded");
  await expect(first).toContainText("prod / slipway");
  await first.getByRole("button", { name: /^Succeeded: web/ }).click();
  const dialog = page.getByRole("dialog", { name: "Deployment of web" });
  await expect(dialog).toContainText("default");
  await look(page, "history-deployment");
  await dialog.getByRole("link", { name: "slipway/web" }).click();
  await expect(page).toHaveURL(/\/applications\/prod\/slipway\/web/);
});

test("weeks of deployments with what became of them", async ({ admin: page }) => {
  await reportPast("shops");
  await page.goto(at("/history"));
  await choose(page, "Runtime", "shops");
  await expect(page.getByText("16 deployments")).toBeVisible();
  await expect(deployments(page).getByRole("row").nth(1)).toContainText("catalog");
  for (const words of ["Failed", "Rolled back", "Rollback", "Succeeded"]) {
    await expect(deployments(page).getByText(words, { exact: true }).first()).toBeVisible();
  }
  await look(page, "history-deployments");
  await onPhone(page, "history-deployments-phone");
  await page.getByRole("button", { name: /^Failed: search/ }).click();
  const dialog = page.getByRole("dialog", { name: "Deployment of search" });
  await expect(dialog).toContainText("the Deployment search did not become healthy");
  await page.keyboard.press("Escape");

  await choose(page, "When", "The last 7 days");
  await expect(page.getByText("3 deployments", { exact: true })).toBeVisible();
  await page.getByRole("textbox", { name: "Application" }).fill("checkout");
  await expect(page.getByText("1 deployment", { exact: true })).toBeVisible();
  // The view is in the address.
  await page.reload();
  await expect(page.getByText("1 deployment", { exact: true })).toBeVisible();
  await page.getByRole("textbox", { name: "Application" }).fill("nothing-has-this-name");
  await expect(page.getByRole("heading", { name: "No matching deployments" })).toBeVisible();
  await look(page, "history-none-fits");
  await page.getByRole("button", { name: "Clear the filters" }).click();
  // Those of other runtimes may fill the first screen.
  await expect(page.getByRole("textbox", { name: "Application" })).toHaveValue("");
  await expect(deployments(page).getByRole("row").nth(1)).toBeVisible();
});

test("the DORA figures by application and project", async ({ admin: page }) => {
  await page.goto(at("/history?tab=dora&runtime=shops"));
  const figures = page.getByRole("table", { name: "DORA figures" });
  await expect(figures.getByRole("row").filter({ hasText: "checkout" })).toContainText("33 %");
  await expect(page.getByText("1 failed, 1 rolled back")).toBeVisible();
  await expect(page.getByText("median of 2, 0 open")).toBeVisible();
  await expect(page.getByRole("img", { name: /^Deployments per day, 14/ })).toBeVisible();
  await look(page, "history-dora");
  await onPhone(page, "history-dora-phone");
  await page.getByRole("button", { name: "Group by" }).click();
  await page.getByRole("option", { name: "By project" }).click();
  await expect(figures.getByRole("row").filter({ hasText: "platform" })).toContainText("33 %");
  await page.goto(at("/history?tab=dora&app=nothing-has-this-name"));
  await expect(page.getByRole("heading", { name: "No figures for this time" })).toBeVisible();
  await look(page, "history-dora-none");
});

test("traffic over days", async ({ admin: page }) => {
  await page.goto(at("/history?tab=traffic&runtime=shops"));
  const series = page.getByRole("table", { name: "Past traffic" });
  await expect(series.getByRole("row").nth(1)).toContainText("catalog.example.com");
  await expect(series).toContainText("without a route");
  await expect(page.getByTestId("past-requests")).toHaveText("3,102,000");
  await look(page, "history-traffic");
  await onPhone(page, "history-traffic-phone");
  await series.getByRole("link", { name: "checkout" }).focus();
  await page.getByRole("textbox", { name: "Application" }).fill("slipway/checkout");
  await expect(page.getByTestId("past-requests")).toHaveText("540,000");
  await page.getByRole("textbox", { name: "Application" }).fill("search");
  await expect(page.getByRole("heading", { name: "No requests in this time" })).toBeVisible();
  await look(page, "history-traffic-none");
});

test("the history is of what a user may see", async ({ user: page }) => {
  await page.goto(at("/history?runtime=prod&app=web"));
  await expect(deployments(page).getByRole("row").nth(1)).toContainText("web");
  await policy(`p, ${world.user.email}, applications, get, default/web, deny\n`);
  await expect(async () => {
    await page.reload();
    await expect(page.getByRole("heading", { name: "No matching deployments" })).toBeVisible({ timeout: 2_000 });
  }).toPass();
  await policy("");
});
