// As much of `node:test` as the tests of the console use.

const tests = [];
const afters = [];
let file = null;

export function test(name, body) {
  tests.push({file, name, body});
}
export default test;

export function afterEach(body) {
  afters.push({file, body});
}

/** Reads the files and runs their tests, one after the other. */
export async function run(files) {
  for (const name of files) {
    file = name;
    await import(name).catch((error) => test('is read', () => { throw error; }));
  }
  const results = [];
  for (const one of tests) {
    let error = null;
    try {
      await one.body({});
    } catch (thrown) {
      error = String(thrown?.stack ?? thrown);
    }
    for (const after of afters) if (after.file === one.file) await after.body();
    results.push({file: one.file, name: one.name, error});
  }
  return results;
}
