// The files of other projects and the macros, as they are stored in the one-file form.

export async function readBytes(name) {
  const text = document.querySelector(`[data-asset="${name}"]`).textContent;
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const script = (content) => URL.createObjectURL(new Blob([content], { type: "text/javascript" }));

// DuckDB's module imports Arrow, which therefore becomes an address first.
export async function moduleAddress(name) {
  let text = new TextDecoder().decode(await readBytes(name));
  if (text.includes('"./arrow.mjs"')) {
    text = text.replaceAll("./arrow.mjs", await moduleAddress("arrow.mjs"));
  }
  return script(text);
}

export const startWorker = async () => new Worker(script(await readBytes("worker.js")));
