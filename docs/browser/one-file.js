"use strict";
// Start the modules of the one-file form: each becomes a blob: address, those it imports first.
const texts = JSON.parse(document.getElementById("modules").textContent);
const addresses = {};
const addressOf = (name) =>
  (addresses[name] ??= URL.createObjectURL(
    new Blob([texts[name].replace(/from "\.\/([\w-]+\.js)"/g, (_, other) => `from "${addressOf(other)}"`)], {
      type: "text/javascript",
    }),
  ));
import(addressOf("hand.js"));
import(addressOf("files.js"));
