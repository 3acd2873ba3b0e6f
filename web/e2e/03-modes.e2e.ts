import { at, expect, test } from "./support/fixtures";
import { checksRun, choose, connect } from "./support/wizard";
import { world } from "./support/world";

test("a runtime that is reached through an Ingress", async ({ admin: page }) => {
  await connect(page, {
    name: "shop",
    namespace: "shop",
    mode: "Ingress",
    fields: { Host: "localhost", IngressClass: "slipway" },
  });
  await expect(page.getByText(/shop is connected: Ingress/)).toBeVisible();
  // The checks come from the runtime itself, through its Ingress.
  await checksRun(page);
});

test("a runtime that a service mesh serves", async ({ admin: page }) => {
  await connect(page, {
    name: "mesh",
    namespace: "mesh",
    mode: "Service mesh",
    fields: { "URL of the runtime": world.mesh },
  });
  await expect(page.getByText(/mesh is connected: Service mesh/)).toBeVisible();
  await checksRun(page);
});

test("a name that a runtime has is not offered twice", async ({ admin: page }) => {
  await page.goto(at("/install"));
  await choose(page, { name: "prod", namespace: "slipway", mode: "Tunnel" });
  const other = page.getByRole("button", { name: /^Use prod/ });
  await other.click();
  await expect(page.getByLabel("Runtime name")).not.toHaveValue("prod");
});
