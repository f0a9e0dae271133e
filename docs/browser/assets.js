// The files of other projects and the macros, as they are stored on a site.

const address = (name) => new URL(`vendor/${name}`, import.meta.url).href;

export const moduleAddress = async (name) => address(name);

export async function readBytes(name) {
  const place = name === "rankql.sql" ? new URL(name, import.meta.url).href : address(name);
  const response = await fetch(place);
  if (!response.ok) throw new Error(`Cannot load ${name} from this site (${response.status}).`);
  return response.arrayBuffer();
}

export const startWorker = async () => new Worker(new URL("worker.js", import.meta.url));
