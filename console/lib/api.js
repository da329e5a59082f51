// The calls to the server. An answer that is no success becomes an `ApiError` with the server's sentence.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function get(path, {signal} = {}) {
  return answer(await reach(path, {signal}));
}

export async function post(path, body, {signal, type = 'application/json'} = {}) {
  const text = type === 'application/json' ? JSON.stringify(body) : body;
  return answer(await reach(path, {method: 'POST', headers: {'content-type': type}, body: text, signal}));
}

/** A long call: `progress` gets each report of the server; the result is the value of its last line. */
export async function stream(path, body, {signal, progress} = {}) {
  const headers = {'content-type': 'application/json'};
  const response = await reach(path, {method: 'POST', headers, body: JSON.stringify(body), signal});
  if (!response.ok) return answer(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new Lines();
  let result;
  for (;;) {
    const {value, done} = await reader.read();
    for (const line of done ? lines.end() : lines.push(value)) {
      const said = JSON.parse(line);
      if (said.error) throw new ApiError(said.error, 200);
      if (said.progress) progress?.(said.progress);
      if ('result' in said) result = said.result;
    }
    if (done) break;
  }
  if (result === undefined) throw new ApiError('the server stopped before it had a result', 200);
  return result;
}

/** Cuts pieces of a text into lines. */
export class Lines {
  rest = '';

  push(piece) {
    const lines = (this.rest + piece).split('\n');
    this.rest = lines.pop();
    return lines.filter((line) => line.trim());
  }

  end() {
    const last = this.rest;
    this.rest = '';
    return last.trim() ? [last] : [];
  }
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('the lab does not answer; is `baton lab` still running?', 0);
  }
}

async function answer(response) {
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError(text.trim() || `the server answered with status ${response.status}`, response.status);
  }
  if (!response.ok) throw new ApiError(value.error ?? `the server answered with status ${response.status}`, response.status);
  return value;
}

/** Whether a call ended because the page gave it up. */
export const isAbort = (error) => error?.name === 'AbortError';

let about;

/** What the lab knows: algorithms, scenarios, challenges, glossary. Asked for once. */
export function aboutLab() {
  about ??= get('/api/about').catch((error) => {
    about = undefined;
    throw error;
  });
  return about;
}
