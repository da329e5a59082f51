// The spec of a run: what a form may say for which algorithm, and what is left out because it is the default. Pure functions.

const NUMBERS = ['n', 'coordinators', 'votes', 'entries', 'hold', 'think', 'delay-max', 'loss', 'duplicate', 'drift', 'seed'];
const FLAGS = ['app-messages', 'ignore-assumptions', 'no-detector'];
/** The order of the fields in a spec, so that the same run always has the same address. */
const FIELDS = ['algorithm', 'n', 'variant', 'coordinators', 'votes', 'load', 'entries', 'hold', 'think', 'network', 'delay', 'delay-max', 'order', 'loss', 'duplicate', 'drift', 'faults', 'app-messages', 'store', 'seed', 'no-detector', 'ignore-assumptions'];

/** The options that mean nothing for a family are refused by the simulator; so the form does not offer them. */
const ONLY = {
  load: ['mutex', 'election', 'append'], entries: ['mutex', 'detector', 'append'], think: ['mutex', 'detector', 'append'],
  hold: ['mutex'], 'app-messages': ['mutex'], store: ['mutex'],
};

/** Whether an option has a meaning for this family. Written faults decide what happens in elections and to detectors. */
export function applies(option, family, hasFaults = false) {
  if (!(ONLY[option] ?? [family]).includes(family)) return false;
  if (hasFaults && family === 'election' && option === 'load') return false;
  return !(hasFaults && family === 'detector' && (option === 'entries' || option === 'think'));
}

/** The spec of the texts and flags of a form: empty fields and defaults are left out, numbers are numbers. */
export function fromForm(values, family) {
  const hasFaults = (values.faults ?? []).some((fault) => fault !== 'random');
  const spec = {};
  for (const name of FIELDS) {
    const value = values[name];
    if (value === undefined || value === null || value === '' || value === false) continue;
    if (!applies(name, family, hasFaults)) continue;
    if (name === 'faults' && value.length === 0) continue;
    if (name === 'network' && value === 'sync') continue;
    spec[name] = NUMBERS.includes(name) ? Number(value) : FLAGS.includes(name) ? true : value;
    if (['loss', 'duplicate', 'drift'].includes(name) && spec[name] === 0) delete spec[name];
  }
  return spec;
}

/** The same run with another algorithm. A variant that the other algorithm does not have is left out. */
export function withAlgorithm(spec, {name, variants}) {
  const known = new Set(variants.map((variant) => variant.name.split(':')[0]));
  const {variant, ...rest} = spec;
  const kept = variant && String(variant).split('+').every((part) => known.has(part.split(':')[0]));
  return {...rest, algorithm: name, ...(kept ? {variant} : {})};
}

/** The algorithms that a run may be shown beside: the healthy one of a broken one, or the broken ones of a healthy one. */
export function counterparts(algorithm, algorithms) {
  if (algorithm.cured) return algorithms.filter(({name}) => name === algorithm.cured);
  return algorithms.filter(({cured}) => cured === algorithm.name);
}

/**
 * What a run may be shown beside: `{value, text, spec, tags}`. `value` stands in the address, `text` in the list of choices, `spec` is
 * the other run, and `tags` tell the two runs apart: `[tone, word]`, first that of this run.
 */
export function besides(spec, algorithm, algorithms) {
  // About the algorithms, not about the runs: a run without the mistake may still break a promise, if messages are lost.
  const word = ({broken}) => (broken ? ['bad', 'with the mistake'] : ['', 'without the mistake']);
  const others = counterparts(algorithm, algorithms).map((other) => ({
    value: other.name, text: `${other.name} (${word(other)[1]})`, spec: withAlgorithm(spec, other), tags: [word(algorithm), word(other)],
  }));
  // A run of a detector without its detector means nothing.
  if (algorithm.family === 'detector') return others;
  const {'no-detector': isOff, ...rest} = spec;
  const [on, off] = [['', 'detector on'], ['', 'detector off']];
  // Most algorithms assume a detector. Without it they run only if that is ignored.
  const [text, other] = isOff ? ['the detector on', rest] : ['the detector off', {...spec, 'no-detector': true, 'ignore-assumptions': true}];
  return [...others, {value: 'detector', text, spec: other, tags: isOff ? [off, on] : [on, off]}];
}

/** The algorithm with what it assumes and promises in a variant such as `quorum+views`. */
export function inVariant(algorithm, variant) {
  const names = (variant ?? '').split('+');
  const asked = algorithm?.variants?.find(({name, facts}) => facts && names.includes(name));
  return asked ? {...algorithm, ...asked.facts} : algorithm;
}

/** What a run is judged by: the promises of the algorithm, or of the healthy one if it is broken on purpose. */
export function promisedBy(algorithm, algorithms) {
  const healthy = algorithms.find(({name}) => name === algorithm?.cured);
  return {promises: [...(healthy?.promises ?? []), ...(algorithm?.promises ?? [])]};
}

/** The part of a spec that says which group it is. The page for steps by hand needs no more. */
export function groupOf({algorithm, n, variant, coordinators, votes}) {
  return JSON.parse(JSON.stringify({algorithm, n, variant, coordinators, votes}));
}

/**
 * The group that moments are asked of, so that its structure can be drawn; null if none is known. `source` is as in
 * `createMoment`. A run says how many clients it has if the spec leaves that to its default.
 */
export function groupOfSource(source, scene) {
  const trace = source?.trace ?? source?.otherwise?.trace;
  const spec = source?.spec ?? (trace === undefined ? null : specOfTrace(trace));
  if (!spec) return null;
  return groupOf({...spec, n: spec.n ?? scene.processes.filter(({role}) => role === 'client').length});
}

/** What the header of a trace says about its group. */
function specOfTrace(trace) {
  let header;
  try {
    header = JSON.parse(trace.slice(0, trace.indexOf('\n')));
  } catch {
    // The server says what is wrong with a trace; a page without a drawing is enough here.
    return null;
  }
  const {algorithm, variant, params} = header;
  return {algorithm, variant: variant ?? undefined, coordinators: params?.coordinators, votes: params?.votes};
}
