// As much of `node:assert/strict` as the tests of the console use.

const shown = (value) => {
  try {
    return JSON.stringify(value, (_, inner) => (inner instanceof Map || inner instanceof Set ? [...inner] : inner)) ?? String(value);
  } catch {
    return String(value);
  }
};

function fail(message = 'failed') {
  throw message instanceof Error ? message : new Error(message);
}

function isSame(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof Map) return isSame([...a].sort(byText), [...b].sort(byText));
  if (a instanceof Set) return isSame([...a].sort(byText), [...b].sort(byText));
  const [mine, other] = [Object.keys(a), Object.keys(b)];
  return mine.length === other.length && mine.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
}

/** Maps and sets are the same whatever the order in which they were filled. */
const byText = (a, b) => (shown(a) < shown(b) ? -1 : 1);

function ok(value, message) {
  if (!value) fail(message ?? `${shown(value)} is not true`);
}

function throws(body, expected, message) {
  let thrown;
  try {
    body();
  } catch (error) {
    thrown = {error};
  }
  if (!thrown) fail(message ?? 'nothing was thrown');
  const {error} = thrown;
  const fits =
    expected === undefined
      ? true
      : expected instanceof RegExp
        ? expected.test(String(error))
        : expected === Error || expected.prototype instanceof Error
          ? error instanceof expected
          : typeof expected === 'function'
            ? expected(error) === true
            : Object.entries(expected).every(([key, value]) => (value instanceof RegExp ? value.test(error[key]) : isSame(error[key], value)));
  if (!fits) fail(`${message ?? 'another error was thrown'}: ${error}`);
}

const assert = Object.assign(ok, {
  ok,
  fail,
  throws,
  equal: (a, b, message) => Object.is(a, b) || fail(`${message ?? 'not equal'}: ${shown(a)} and ${shown(b)}`),
  notEqual: (a, b, message) => !Object.is(a, b) || fail(message ?? `both are ${shown(a)}`),
  deepEqual: (a, b, message) => isSame(a, b) || fail(`${message ?? 'not the same'}: ${shown(a)} and ${shown(b)}`),
  match: (text, pattern, message) => pattern.test(text) || fail(message ?? `${shown(text)} does not match ${pattern}`),
});
export default assert;
