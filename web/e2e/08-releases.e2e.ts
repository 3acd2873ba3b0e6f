// A release that runs: the edge divides real requests between two revisions, and the
// page shows what becomes of them.

import type { Page } from "@playwright/test";
import { at, expect, signIn, test, textOf } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { policy, pushFiles, startLoad, stopLoad, world } from "./support/world";

const host = "shop.example.com";
const where = at("/applications/prod/slipway/shop?tab=releases");

// The pictures have both revisions.
const tall = { width: 1280, height: 910 };

// The first step needs more requests than there are: the release stays there until a person
// or the judge ends it. A slow machine is no reason to go back.
const workload = (version: string): string => `apiVersion: slipway.dev/v1alpha1
kind: ReleasePolicy
metadata: {name: patient}
spec:
  steps: [{weight: 20, requests: 1000000}]
  guards: {latencyIncrease: 10s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, annotations: {slipway.dev/release: patient}}
spec:
  replicas: 1
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      nodeSelector: {slipway.dev/process-node: "true"}
      tolerations: [{key: slipway.dev/process-node, operator: Exists}]
      containers: [{name: shop, image: "slipway.dev/demo:${version}", ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: slipway
  rules:
    - host: ${host}
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {name: http}}}}]}
`;

const application = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: "${world.git.apps}", path: shop, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: ${world.target}}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`;

const release = (version: string, message: string): Promise<string> =>
  pushFiles({ "shop/shop.yaml": workload(version) }, message);

const panelOf = (page: Page) => page.getByRole("region", { name: "Release shop", exact: true });
const revision = (page: Page, name: "stable" | "canary") =>
  page.getByRole("table", { name: "Revisions of Release shop" }).getByRole("row").filter({ hasText: name });
const cell = (page: Page, name: "stable" | "canary", column: number) =>
  revision(page, name).getByRole("cell").nth(column);
const columns = { commit: 1, share: 2, requests: 4, errors: 5, p99: 7 };
const requestsOf = async (page: Page, name: "stable" | "canary"): Promise<number> =>
  Number((await textOf(cell(page, name, columns.requests))).replaceAll(",", "")) || 0;

// act presses the button of an action, and confirms it. The runtime offers the action as soon as it
// has a new policy, and the platform learns of that with the next heartbeat: until then it
// refuses, and the dialog stays for another try.
async function act(page: Page, label: string): Promise<void> {
  await panelOf(page)
    .getByRole("button", { name: `${label} Release shop`, exact: true })
    .click();
  const dialog = page.getByRole("dialog", { name: `${label} Release shop` });
  await expect(async () => {
    if (await dialog.isVisible()) {
      await dialog.getByRole("button", { name: label, exact: true }).click();
    }
    await expect(dialog).toBeHidden({ timeout: 5_000 });
  }).toPass();
}

// offered is the actions that the panel has.
const offered = (page: Page) => panelOf(page).locator("header").getByRole("button");

// running waits until the canary of a commit has its share and has served requests.
async function running(page: Page, commit: string): Promise<void> {
  await expect(cell(page, "canary", columns.commit)).toHaveText(commit.slice(0, 8));
  await expect(cell(page, "canary", columns.share)).toHaveText("20 %");
  await expect.poll(() => requestsOf(page, "canary")).toBeGreaterThan(0);
}

test.describe("releases", () => {
  // They come, change and go by themselves, and so do conditions above them.
  test.use({ mayJump: true });

  test("a canary is seen live, and ends as people with the rights decide", async ({ admin: page, browser }) => {
    await pushFiles({ "apps/shop.yaml": application, "shop/shop.yaml": workload("v1") }, "Open the shop");
    await startLoad(host);
    await page.setViewportSize(tall);
    await page.goto(where);
    await expect(page.getByRole("region", { name: "State" })).toContainText("Healthy");

    const second = await release("v2", "Version 2 of the shop");
    await expect(panelOf(page)).toContainText("Progressing");
    await running(page, second);
    await expect(cell(page, "stable", columns.share)).toHaveText("80 %");
    await expect(page.getByRole("img", { name: "stable 80 %, canary 20 %" })).toBeVisible();
    for (const name of ["stable", "canary"] as const) {
      const before = await requestsOf(page, name);
      await expect.poll(() => requestsOf(page, name)).toBeGreaterThan(before);
      await expect(cell(page, name, columns.errors)).toHaveText("0.0 % (0)");
      await expect(cell(page, name, columns.p99)).toHaveText(/^[\d.]+ (µs|ms|s)$/);
    }
    await expect(panelOf(page)).toContainText(/canary 20 %, waiting for [\d,]+ requests/);
    await expect(panelOf(page)).toContainText(/Pass.*0 % errors \(0 of [\d,]+\) against 0 % \(0 of [\d,]+\)/);
    await look(page, "release-canary");
    await onPhone(page, "release-canary-phone");

    // A viewer only looks; the right to pause is one of its own.
    const others = await browser.newContext({ ignoreHTTPSErrors: true });
    await signIn(others, world.user);
    const theirs = await others.newPage();
    await theirs.goto(where);
    await running(theirs, second);
    await expect(offered(theirs)).toHaveCount(0);
    await policy(`p, ${world.user.email}, applications, action/slipway.dev/Release/pause, default/*, allow\n`);
    await expect(offered(theirs)).toHaveText(["Pause"]);
    await act(theirs, "Pause");
    await expect(panelOf(page)).toContainText("canary 20 %, paused until it is promoted");
    await expect(offered(theirs)).toHaveCount(0);
    await others.close();
    await policy("");

    await expect(offered(page)).toHaveText(["Promote", "Promote fully", "Resume", "Abort"]);
    await act(page, "Promote");
    await expect(panelOf(page)).toContainText("Succeeded");
    await expect(cell(page, "canary", columns.share)).toHaveText("100 %");
    expect((await stopLoad()).failed).toBe(0);
  });

  test("a bad revision goes back by itself, and the page has the reason", async ({ admin: page }) => {
    await startLoad(host);
    await page.goto(where);
    await page.setViewportSize(tall);
    const commit = await release("v-bad", "Version 3 of the shop");
    await expect(panelOf(page)).toContainText("RolledBack");
    await expect(cell(page, "canary", columns.commit)).toHaveText(commit.slice(0, 8));
    await expect(cell(page, "canary", columns.share)).toHaveText("0 %");
    await expect(cell(page, "stable", columns.share)).toHaveText("100 %");
    await expect(cell(page, "canary", columns.errors)).toHaveText(/^[1-9].* % \([1-9]/);
    await expect(panelOf(page)).toContainText(/Fail.*% errors \(\d+ of \d+\) against 0 %/);
    // The Application is at the commit before, and the page names the one that is held back.
    await expect(page.getByText(/main is at .* serves; the release of shop failed: .* % errors/)).toBeVisible();
    await expect(page.getByRole("region", { name: "State" })).toContainText("Version 2 of the shop");
    await expect(page.getByRole("region", { name: "State" })).toContainText("Healthy");
    await expect(offered(page)).toHaveText(["Retry"]);
    await look(page, "release-rolled-back");
    // The stable revision served what the canary failed.
    expect((await stopLoad()).failed).toBe(0);
  });

  test("a release that is aborted goes back", async ({ admin: page }) => {
    await startLoad(host);
    await page.goto(where);
    await running(page, await release("v3", "Version 4 of the shop"));
    await act(page, "Abort");
    await expect(panelOf(page)).toContainText("RolledBack");
    await expect(panelOf(page)).toContainText("a user aborted the release");
    await expect(cell(page, "stable", columns.share)).toHaveText("100 %");
    await expect(page.getByText(/main is at .* serves; the release of shop failed: a user aborted/)).toBeVisible();
    expect((await stopLoad()).failed).toBe(0);
  });
});
