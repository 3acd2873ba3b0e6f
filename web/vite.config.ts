import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Where `npm run dev` finds a platform; `slipway up` listens there.
const platform = process.env["SLIPWAY_PLATFORM"] ?? "http://127.0.0.1:8086";

// The platform answers its own origin alone.
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
  },
  server: {
    proxy: Object.fromEntries(["/slipway.", "/runtimes/", "/auth/"].map((path) => [path, forwarded])),
  },
});
