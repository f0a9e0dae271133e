// Runs handlers: a line of JSON has code and calls. JSON has neither NaN nor infinity.
import {createInterface} from 'node:readline';
const number = (x) => x === 'nan' ? NaN : x === 'inf' ? Infinity : x === '-inf' ? -Infinity : x;
const run = (handler, parts, options) => {
  const given = options.map(number);
  const states = parts.map((rows) => {
    const state = handler.initialState(...given);
    rows.forEach((row) => handler.aggregate(state, ...row.map(number), ...given));
    return structuredClone(state);
  });
  const total = handler.initialState(...given);
  states.forEach((state) => handler.merge(total, state, ...given));
  return handler.finalize(total, ...given);
};
for await (const line of createInterface({input: process.stdin})) {
  const [code, calls] = JSON.parse(line);
  const handler = await import('data:text/javascript,' + encodeURIComponent(code));
  console.log(JSON.stringify(calls.map(([parts, options]) => {
    try {
      return {value: run(handler, parts, options)};
    } catch (error) {
      return {error: error.message};
    }
  })));
}
