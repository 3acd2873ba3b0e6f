import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Where `npm run dev` finds a platform; `slipway up` listens there.
const platform = process.env["SLIPWAY_PLATFORM"] ?? "http://127.0.0.1:8086";

// The platform accepts its own origin only.
const forwarded = { target: platform, changeOrigin: true, headers: { origin: platform } };

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    // The Go package that embeds the console.
    outDir: "../internal/platform/console/dist/app",
    emptyOutDir: true,
    target: "es2023",
    // A data: URL would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The libraries that every page needs get chunks of their own, so that a release
    // which changes only the console leaves them in the browser's cache. Without the
    // groups the bundler mixes them with the console's modules, in chunks that it names
    // after one of those. Modules outside of the first load ("$initial"), such as most
    // of react-aria, stay in the chunks of the pages that use them.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "react", test: /node_modules\/(react|react-dom|scheduler)\// },
            { name: "router", test: /node_modules\/@tanstack\/(react-router|router-core|history|store|react-store)\// },
            { name: "query", test: /node_modules\/@tanstack\/(react-query|query-core)\// },
            { name: "connect", test: /node_modules\/(@bufbuild|@connectrpc)\// },
            {
              name: "aria",
              test: /node_modules\/(react-aria|react-aria-components|react-stately)\//,
              tags: ["$initial"],
            },
            { name: "console", test: /web\/src\//, tags: ["$initial"] },
          ],
        },
      },
    },
  },
  server: {
    proxy: Object.fromEntries(["/slipway.", "/runtimes/", "/auth/"].map((path) => [path, forwarded])),
  },
});
