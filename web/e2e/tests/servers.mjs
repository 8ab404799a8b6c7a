// The cluster's page, and that of the site caches.
export const tests = [
  {
    name: "cluster: a server that stands alone",
    on: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("cluster");
      await window.shows("one server that stands alone");
      await page.getByRole("region", { name: "Servers" }).getByText("serving").waitFor();
      await page.getByRole("region", { name: "Servers" }).getByText(server.address).waitFor();
      // Points of the series come as long as the page is open.
      await page.getByRole("region", { name: "Calls a second" }).locator("canvas").waitFor();
      await window.seen("cluster");
    },
  },
  {
    name: "site caches: none is named",
    on: "lab",
    async test(window) {
      await window.go("sites");
      await window.shows(/names no tier/);
      await window.seen("sites-none");
    },
  },
];
