// DuckDB's worker. The page sends it the WebAssembly first; after that it can fetch nothing.
const wasm = new Promise((resolve) => {
  addEventListener("message", function first(event) {
    event.stopImmediatePropagation();
    removeEventListener("message", first);
    resolve(event.data);
  });
});
self.fetch = async () => new Response(await wasm, { headers: { "Content-Type": "application/wasm" } });
self.XMLHttpRequest = self.WebSocket = self.EventSource = class {
  constructor() {
    throw new Error("This page reads nothing from the network. Add the file to the page instead");
  }
};
importScripts("vendor/duckdb-browser-eh.worker.js");
