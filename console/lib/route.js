// The address of a page: `#/run?v=1&spec={...}`. Pure functions.

/** The version of the addresses. A link of another version is refused with a sentence. */
export const VERSION = '1';

/** The page, the rest of the path, and the parameters of a hash. */
export function parse(hash) {
  const text = hash.replace(/^#?\/?/, '');
  const cut = text.indexOf('?');
  const [path, query] = cut < 0 ? [text, ''] : [text.slice(0, cut), text.slice(cut + 1)];
  const parts = path.split('/').filter(Boolean).map(decoded);
  return {page: parts[0] ?? 'home', rest: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query))};
}

/** The hash of a page. Parameters without a value are left out. Values are written so that people can read them. */
export function address(page, rest = [], query = {}) {
  const path = ['#', page === 'home' ? '' : page, ...rest.map(encodeURIComponent)].join('/');
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (said.length === 0) return path;
  return `${path}?${said.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')}`;
}

/** The address of a run. */
export function runAddress(spec, more = {}) {
  return address('run', [], {v: VERSION, spec: JSON.stringify(spec), ...more});
}

/** The spec in the parameters of an address: `{spec}`, `{error}` with a sentence, or `{}` if there is none. */
export function specOf(query) {
  if (query.v !== undefined && query.v !== VERSION) {
    return {error: `This link is of version ${query.v}; this lab reads version ${VERSION}.`};
  }
  if (query.spec === undefined) return {};
  let spec;
  try {
    spec = JSON.parse(query.spec);
  } catch {
    return {error: 'This link is damaged: its run is no JSON.'};
  }
  if (!spec || typeof spec !== 'object' || Array.isArray(spec) || typeof spec.algorithm !== 'string') {
    return {error: 'This link is damaged: its run names no algorithm.'};
  }
  return {spec};
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
