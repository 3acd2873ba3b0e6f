// What axe has looked at, and what there is to look at. What there is comes from the
// source: a page, dialog or empty state that is added and never looked at is found.

import { appendFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";

const artefacts = process.env["CONSOLE_ARTEFACTS"] ?? "test-results";
const record = join(artefacts, "scanned.jsonl");
const source = "src";

/** Scan is what one scan has seen. */
export interface Scan {
  name: string;
  /** Path below /console. */
  path: string;
  /** Titles of dialogs that are open, and of what stands where nothing is. */
  titles: string[];
  /** Tabs that are selected, as tablist/tab. */
  tabs: string[];
}

/** keep writes down what a page shows while it is looked at. */
export async function keep(page: Page, name: string): Promise<void> {
  const seen = await page.evaluate(() => {
    const text = (element: Element | null): string => element?.textContent?.trim() ?? "";
    const titles = [...document.querySelectorAll('[role="dialog"] [slot="title"], .empty h2, h1')].map(text);
    const tabs = [...document.querySelectorAll('[role="tab"][aria-selected="true"]')].map(
      (tab) => `${tab.closest('[role="tablist"]')?.getAttribute("aria-label") ?? ""}/${text(tab)}`,
    );
    return { path: location.pathname.replace(/^\/console/, ""), titles, tabs };
  });
  appendFileSync(record, `${JSON.stringify({ name, ...seen } satisfies Scan)}\n`);
}

/** scans is all that was written down. */
export function scans(): Scan[] {
  if (!existsSync(record)) return [];
  return readFileSync(record, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Scan);
}

const quoted = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** Wanted is one thing that must be looked at. */
export interface Wanted {
  words: string;
  pattern: RegExp;
  /** Addresses at which it is shown. */
  where: RegExp;
}

// Where the pages of a folder are shown: titles like "Delete x" are in several.
const places: Record<string, RegExp> = {
  application: /^\/applications\/./,
  applications: /^\/applications$/,
  history: /^\/history/,
  promotions: /^\/promotions/,
  runtimes: /^\/(runtimes|install)/,
  settings: /^\/(settings|runtimes|install)/,
  traffic: /^\/traffic/,
  wizard: /^\/install/,
};
const anywhere = /^/;

/** isSeen is whether a scan has looked at it. */
export function isSeen(wanted: Wanted, all: Scan[]): boolean {
  return all.some((scan) => wanted.where.test(scan.path) && scan.titles.some((title) => wanted.pattern.test(title)));
}

/** routes is the addresses of the router. */
export function routes(): Wanted[] {
  const text = readFileSync(join(source, "app", "router.tsx"), "utf8");
  return [...text.matchAll(/\bpath: "([^"]+)"/g)].map(([, path = ""]) => ({
    words: path,
    pattern: anywhere,
    where: new RegExp(
      `^${path
        .split("/")
        .map((part) => (part.startsWith("$") ? "[^/]+" : quoted(part)))
        .join("/")}/?$`,
    ),
  }));
}

/** titles is the titles of all dialogs and empty states. */
export function titles(): Wanted[] {
  const found: Wanted[] = [];
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".tsx"));
  for (const file of files) {
    const text = readFileSync(join(source, file), "utf8");
    for (const tag of text.matchAll(/<(?:\w*Dialog|Empty)\b/g)) {
      for (const title of textsOf(titleAfter(text.slice(tag.index)))) {
        // Of a template, what is written counts.
        const parts = title.split(/\$\{[^}]*\}/).map(quoted);
        found.push({
          words: `${title} (${file})`,
          pattern: new RegExp(`^${parts.join(".+")}$`),
          where: places[file.split("/")[1] ?? ""] ?? anywhere,
        });
      }
    }
  }
  return found;
}

// titleAfter is the value of the attribute title of the tag at the beginning of a text.
function titleAfter(text: string): string {
  const begin = /^<\w+(?:\s+(?!title=)[\w-]+(?:=(?:"[^"]*"|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}))?)*\s+title=/.exec(text);
  if (!begin) return "";
  const rest = text.slice(begin[0].length);
  if (rest.startsWith('"')) return rest.slice(0, rest.indexOf('"', 1) + 1);
  let depth = 0;
  for (let at = 0; at < rest.length; at++) {
    if (rest[at] === "{") depth++;
    if (rest[at] === "}" && --depth === 0) return rest.slice(1, at);
  }
  return "";
}

// textsOf is the texts that an expression can be: those in quotes, and not what it compares with.
function textsOf(expression: string): string[] {
  return [...expression.replace(/===? "[^"]*"/g, "").matchAll(/`([^`]*)`|"([^"]+)"/g)].map(
    ([, template, plain]) => template ?? plain ?? "",
  );
}
