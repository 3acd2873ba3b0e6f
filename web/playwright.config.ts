import { defineConfig } from "@playwright/test";

// The Go test in test/console starts the environment and passes its URLs.
const artefacts = process.env["CONSOLE_ARTEFACTS"] ?? "test-results";

export default defineConfig({
  testDir: "e2e",
  testMatch: "*.e2e.ts",
  // It only measures.
  testIgnore: process.env["CONSOLE_LONG"] === "1" ? [] : "10-fleet.e2e.ts",
  outputDir: `${artefacts}/failures`,
  // The specs are one story in the order of their files: a runtime that one installs
  // is what the next one uses.
  workers: 1,
  fullyParallel: false,
  retries: 0,
  // Bounds what hangs; no spec that passes comes near.
  timeout: 180_000,
  expect: { timeout: 45_000 },
  reporter: [["list"], ["json"]],
  use: {
    ignoreHTTPSErrors: true,
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    timezoneId: "UTC",
    colorScheme: "light",
    contextOptions: { reducedMotion: "reduce" },
    // Without the pictures between the actions, which take a browser without a GPU longer than the actions.
    trace: { mode: "retain-on-failure", screenshots: false, sources: false },
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      // The tests run in a network and often a container of their own, where the sandbox cannot be.
      // Debian's Chromium draws with the GPU, which it emulates where there is none.
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--js-flags=--expose-gc"],
    },
  },
});
