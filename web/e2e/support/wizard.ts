// The way of a person through the install wizard.

import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { at, expect, test, textOf } from "./fixtures";
import { install } from "./world";

export interface Choice {
  name: string;
  namespace: string;
  /** Title of the card of the access mode. */
  mode: string;
  /** Fields of the mode by their labels. */
  fields?: Record<string, string>;
}

/** choose fills in the form for a runtime. */
export async function choose(page: Page, choice: Choice): Promise<void> {
  await page.getByLabel("Runtime name").fill(choice.name);
  await page.getByLabel("Namespace", { exact: true }).fill(choice.namespace);
  // The input of a card is hidden below it: a mouse hits the card.
  await page.getByText(choice.mode, { exact: true }).click();
  await expect(page.getByRole("radio", { name: new RegExp(`^${choice.mode}`) })).toBeChecked();
  for (const [label, text] of Object.entries(choice.fields ?? {})) {
    await page.getByRole("textbox", { name: label }).fill(text);
  }
}

/** takeKey generates an API key, and downloads it as the page offers. */
export async function takeKey(page: Page, name: string): Promise<string> {
  await page.getByRole("button", { name: "Generate an API key" }).click();
  const offered = page.waitForEvent("download");
  await page.getByRole("button", { name: `Download ${name}.key` }).click();
  const download = await offered;
  expect(download.suggestedFilename()).toBe(`${name}.key`);
  return (await readFile(await download.path(), "utf8")).trim();
}

/** commandFor is the text that the page has for a tool. */
export async function commandFor(page: Page, label: string): Promise<string> {
  return (await textOf(page.getByRole("region", { name: label }).locator("code"))).trim();
}

/** connect goes from an empty wizard to a runtime that is connected. */
export async function connect(page: Page, choice: Choice): Promise<void> {
  test.slow(); // a cluster is started, and Helm waits until all Pods are ready
  await page.goto(at("/install"));
  await choose(page, choice);
  const key = await takeKey(page, choice.name);
  const command = await commandFor(page, "Commands for Helm");
  expect(command).not.toContain(key);
  expect(await install(command, key)).toEqual({ name: choice.name, namespace: choice.namespace });
  await expect(page.getByText(`${choice.name} is connected`)).toBeVisible();
}

/** checksRun waits for results of the checks. The runtime may not be reachable at the first attempt. */
export async function checksRun(page: Page): Promise<void> {
  const first = page.locator("[data-check]").first();
  const unreached = page.getByText("The checks could not be run:");
  await expect(async () => {
    await expect(first.or(unreached)).toBeVisible();
    if (await unreached.isVisible()) await page.getByRole("button", { name: "Check again" }).click();
    await expect(first).toBeVisible({ timeout: 5_000 });
  }).toPass();
}
