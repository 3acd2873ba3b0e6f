import { at, expect, test, textOf } from "./support/fixtures";
import { look, onPhone } from "./support/look";
import { startLoad, stopLoad, world } from "./support/world";

test("the traffic while load runs, from the commit to the request", async ({ admin: page }) => {
  await page.goto(at("/traffic?runtime=prod"));
  const routes = page.getByRole("table", { name: "Routes" });
  const row = routes.getByRole("row").filter({ hasText: world.host });
  await expect(row).toContainText("web");
  const rate = page.getByTestId("total-rate");
  const total = async () => Number((await textOf(page.getByTestId("total-requests"))).replaceAll(",", ""));
  await startLoad();
  await expect.poll(async () => Number((await textOf(rate)).replaceAll(",", ""))).toBeGreaterThan(10);
  const before = await total();
  await expect.poll(total).toBeGreaterThan(before);
  await expect(row).toContainText("Change what the web says");
  await page.getByRole("button", { name: "Requests/s" }).click();
  await expect(routes.getByRole("row").nth(1)).toContainText(world.host);
  await look(page, "traffic");

  await row.getByRole("button").first().click();
  const chain = page.getByRole("list", { name: "From the commit to the requests" });
  for (const step of ["Commit", "Application", "Ingress", "Route", "Live requests"]) {
    await expect(chain.getByText(step, { exact: true }).first()).toBeVisible();
  }
  await expect(chain).toContainText("Change what the web says");
  await look(page, "traffic-chain");
  const { answered, failed } = await stopLoad();
  expect(failed).toBe(0);
  expect(answered).toBeGreaterThan(0);
  // The page's total is the number of requests that were sent, and a few of the browser.
  await expect.poll(total).toBeGreaterThanOrEqual(answered);
  await expect.poll(async () => Number(await textOf(rate))).toBe(0);
  await chain.getByRole("link", { name: "web" }).click();
  await expect(page).toHaveURL(/\/applications\/prod\/slipway\/web/);
});

test.describe("what serves a URL", () => {
  // The explanation takes its room when the runtime has responded, however long that takes.
  test.use({ mayJump: true });
  test("what serves a URL, and what does not", async ({ admin: page }) => {
    await page.goto(at("/traffic?runtime=prod"));
    const url = page.getByRole("textbox", { name: "URL" });
    await url.fill(`http://${world.host}/cart`);
    await page.keyboard.press("Enter");
    const answer = page.getByRole("region", { name: "Which route serves this URL?" });
    await expect(answer.getByText(/ matches: /).first()).toBeVisible();
    await expect(answer.getByRole("list", { name: "From the commit to the endpoints" })).toContainText("web");
    await look(page, "explain");

    await url.fill("nothing.example.com/");
    await page.keyboard.press("Enter");
    await expect(url).toHaveValue("https://nothing.example.com/");
    await expect(answer.getByText(/No route matches/).first()).toBeVisible();
    // The question is in the address.
    await page.reload();
    await expect(answer.getByText(/No route matches/).first()).toBeVisible();
  });
});

test("certificates and refusals", async ({ admin: page }) => {
  await page.goto(at("/traffic?runtime=prod&tab=certificates"));
  await expect(page.getByRole("table", { name: "Certificates" })).toContainText("localhost");
  await look(page, "certificates");
  await page.getByRole("tab", { name: /^Refusals/ }).click();
  const refusals = page.getByRole("table", { name: "Refusals" });
  await expect(refusals).toContainText("misspelled");
  await expect(refusals).toContainText("rate-limmit");
  await look(page, "refusals");
  await page.getByRole("tab", { name: /^Routes/ }).click();
  await onPhone(page, "traffic-phone");
});
