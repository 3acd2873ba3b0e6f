// Browsers that are signed in, and that forgive no error.

import { type BrowserContext, test as base, expect, type Locator, type Page } from "@playwright/test";
import { watchShifts } from "./shift";
import { world } from "./world";

export { expect };

/** at gives a page of the console by its path below /console. */
export const at = (path: string): string => `${world.url}/console${path}`;

/** textOf returns the text of an element, once it exists. */
export async function textOf(locator: Locator): Promise<string> {
  return (await locator.textContent()) ?? "";
}

/** signIn gives the context the session of a user with a password. */
export async function signIn(context: BrowserContext, who: { email: string; password: string }): Promise<void> {
  const answer = await context.request.post(`${world.url}/slipway.platform.v1.AuthService/SignIn`, {
    data: { email: who.email, password: who.password },
  });
  expect(answer.ok(), `sign in as ${who.email}: ${await answer.text()}`).toBe(true);
}

// What the browser may complain of: requests that fail while the platform is away,
// and error responses, which pages show.
const forgiven = /net::ERR_|Failed to load resource/;

/** watch records errors of a page that are not visible. */
function watch(page: Page, problems: string[]): void {
  page.on("pageerror", (error) => problems.push(`error in the page: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !forgiven.test(message.text())) problems.push(`console: ${message.text()}`);
  });
}

interface Fixtures {
  /** Pages may shift: they lose their connection, and show a banner. */
  mayJump: boolean;
  /** What went wrong in the browser; each test fails with it. */
  problems: string[];
  /** A page of the admin. */
  admin: Page;
  /** A page of a user who is not an admin. */
  user: Page;
}

export const test = base.extend<Fixtures>({
  mayJump: [false, { option: true }],
  problems: [
    async ({ context, mayJump }, use) => {
      const problems: string[] = [];
      for (const page of context.pages()) watch(page, problems);
      context.on("page", (page) => watch(page, problems));
      const steadiness = await watchShifts(context);
      await use(problems);
      if (!mayJump) problems.push(...steadiness.problems());
      expect(problems, "what went wrong in the browser").toEqual([]);
    },
    { auto: true },
  ],
  admin: async ({ context }, use) => {
    await signIn(context, world.admin);
    await use(await context.newPage());
  },
  user: async ({ context }, use) => {
    await signIn(context, world.user);
    await use(await context.newPage());
  },
});
