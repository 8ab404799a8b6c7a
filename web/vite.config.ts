// Builds the pages into the folder of the crate that embeds them; the same sources give the same bytes.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const server = process.env.ESKER_URL ?? "http://127.0.0.1:7400";

export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../crates/console/dist",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: { "/api": server, "/sparql": server, "/rdf-graphs": server, "/metrics": server, "/healthz": server },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
