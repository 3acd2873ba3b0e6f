// A version goes through three environments, as people with the rights decide.

import type { Page } from "@playwright/test";
import { at, expect, signIn, test } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { apply, policy, pushFiles, world } from "./support/world";

const where = at("/promotions?runtime=prod");
const environments = ["dev", "staging", "live"] as const;
type Environment = (typeof environments)[number];

const settings = (environment: Environment, version: string): string => `apiVersion: v1
kind: ConfigMap
metadata: {name: ship}
data:
  host: ${environment}.example.com
  version: ${version}
`;

const application = (environment: Environment): string => `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: ship-${environment}, labels: {codefresh.io/product: ship}}
spec:
  project: default
  source: {repoURL: "${world.git.apps}", path: ship/${environment}, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: ship-${environment}}
  syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}
`;

const environment = (name: Environment): string => `apiVersion: slipway.dev/v1alpha1
kind: Environment
metadata: {name: ${name}}
spec:
  type: ${name === "live" ? "PROD" : "NON_PROD"}
  destinations: [{namespaces: [ship-${name}]}]
  gates: {approval: ${name === "live"}}
---
`;

const product = `apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: ship}
spec:
  promotionTemplate:
    versionSource: {file: config.yaml, jsonPath: $.data.version}
    promotion: {config.yaml: {jsonPaths: [$.data.version]}}
  promotionFlows: [{name: to-live}]
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: to-live}
spec:
  triggerEnvironment: dev
  steps: [{environment: staging, dependsOn: [dev]}, {environment: live, dependsOn: [staging]}]
`;

const place = (page: Page, name: Environment) =>
  page.getByRole("list", { name: "Environments of ship" }).getByRole("listitem").nth(environments.indexOf(name));
const newest = (page: Page) => page.getByRole("table", { name: "Promotions of ship" }).getByRole("row").nth(1);
const release = (version: string): Promise<string> =>
  pushFiles({ "ship/dev/config.yaml": settings("dev", version) }, `Version ${version} of the ship`);

// confirm goes through the dialog of an action. The platform hears of a new policy after
// the runtime, and refuses until then.
async function confirm(page: Page, title: string | RegExp, label: string, name = ""): Promise<void> {
  const dialog = page.getByRole("dialog", { name: title });
  if (name !== "") await look(page, name);
  await expect(async () => {
    await dialog.getByRole("button", { name: label, exact: true }).click();
    await expect(dialog).toBeHidden({ timeout: 2_000 });
  }).toPass();
}

async function start(page: Page, name = ""): Promise<void> {
  await page.getByRole("button", { name: "Start a promotion of ship with to-live" }).click();
  await confirm(page, "Start a promotion of ship", "Start", name);
}

test.describe("promotions", () => {
  // What is in the environments changes by itself.
  test.use({ mayJump: true });

  test("a version goes from the first environment to the last", async ({ admin: page, browser }) => {
    await page.goto(where);
    await expect(page.getByRole("heading", { name: "No products" })).toBeVisible();
    await look(page, "promotions-none");
    const files: Record<string, string> = {};
    for (const name of environments) {
      files[`apps/ship-${name}.yaml`] = application(name);
      files[`ship/${name}/config.yaml`] = settings(name, "v1");
    }
    await pushFiles(files, "Build the ship");
    await apply(environments.map(environment).join("") + product);
    for (const name of environments) await expect(place(page, name)).toContainText("v1");
    await expect(place(page, "live")).toContainText("Nothing to promote.");
    await expect(place(page, "live")).toContainText("Gates: approval");

    await release("v2");
    await expect(place(page, "staging")).toContainText("dev has v2.");
    await start(page, "promotion-start");
    await expect(place(page, "staging")).toContainText("v2 is here.");
    await expect(place(page, "live")).toContainText("v2 waits for approval.");
    await expect(place(page, "live")).toContainText("v1");
    await look(page, "promotions");
    await onPhone(page, "promotions-phone");

    // A viewer only looks; the right to approve is one of its own.
    const others = await browser.newContext({ ignoreHTTPSErrors: true });
    await signIn(others, world.user);
    const theirs = await others.newPage();
    await theirs.goto(where);
    await expect(place(theirs, "live")).toContainText("v2 waits for approval.");
    await expect(theirs.getByRole("button", { name: /^(Start|Approve|Abort)/ })).toHaveCount(0);
    await policy(`p, ${world.user.email}, applications, action/slipway.dev/Promotion/approve, default/*, allow\n`);
    await theirs.getByRole("button", { name: /^Approve ship-.* for live$/ }).click();
    await confirm(theirs, /^Approve ship-.* for live$/, "Approve", "promotion-approve");
    await expect(place(theirs, "live").locator("strong")).toHaveText("v2");
    await others.close();
    await policy("");

    await expect(newest(page)).toContainText("Succeeded");
    await expect(place(page, "live")).toContainText(`by ${world.admin.email}`);
    await newest(page).getByRole("button").click();
    const steps = page.getByRole("table", { name: /^Environments of ship-/ });
    await expect(steps.getByRole("row").filter({ hasText: "live" })).toContainText(world.user.email);
    await expect(steps.getByRole("row").filter({ hasText: "live" }).locator("code")).toHaveText(/^[0-9a-f]{8}$/);
    await look(page, "promotion");
    await page.getByRole("button", { name: "Close", exact: true }).click();
  });

  test("a promotion is aborted, and nothing more is written", async ({ admin: page }) => {
    await page.goto(where);
    await release("v3");
    await expect(place(page, "dev").locator("strong")).toHaveText("v3");
    await start(page);
    await expect(place(page, "live")).toContainText("v3 waits for approval.");
    await newest(page).getByRole("button").click();
    await page.getByRole("dialog").getByRole("button", { name: "Abort", exact: true }).click();
    await confirm(page, /^Abort ship-/, "Abort", "promotion-abort");
    await page.keyboard.press("Escape");
    await expect(newest(page)).toContainText("Aborted");
    await expect(place(page, "live").locator("strong")).toHaveText("v2");
    await expect(place(page, "live")).toContainText("staging has v3.");
  });
});
