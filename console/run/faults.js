// Faults as the simulator reads them, made from fields. Pure functions.

/** The kinds of faults with their fields, in the order in which they are read. */
export const KINDS = {
  crash: {text: 'Crash', fields: ['process', 'at']},
  recover: {text: 'Recover', fields: ['process', 'at', 'forgets']},
  pause: {text: 'Pause', fields: ['process', 'at', 'lasts']},
  partition: {text: 'Partition', fields: ['groups', 'at', 'for']},
  oneway: {text: 'Cut one way', fields: ['from', 'to', 'at', 'for']},
  random: {text: 'Random faults', fields: []},
};

/** The fault as text, or a sentence about what is missing: `{fault}` or `{error}`. */
export function write(kind, values) {
  const said = (name) => String(values[name] ?? '').trim();
  const missing = (KINDS[kind]?.fields ?? []).filter((name) => !['for', 'forgets'].includes(name) && !said(name));
  if (missing.length > 0) return {error: `A fault of this kind needs: ${missing.map((name) => NAMES[name]).join(', ')}.`};
  const lasts = said('for') ? ` for ${said('for')}` : '';
  switch (kind) {
    case 'crash': return {fault: `crash ${said('process')} @ ${said('at')}`};
    case 'recover': return {fault: `recover ${said('process')} @ ${said('at')}${values.forgets ? ' without-memory' : ''}`};
    case 'pause': return {fault: `pause ${said('process')} @ ${said('at')} for ${said('lasts')}`};
    case 'partition': return {fault: `partition ${said('groups')} @ ${said('at')}${lasts}`};
    case 'oneway': return {fault: `oneway ${said('from')}->${said('to')} @ ${said('at')}${lasts}`};
    case 'random': return {fault: 'random'};
    default: return {error: 'There is no such kind of fault.'};
  }
}

/** What the fields are called. */
export const NAMES = {process: 'process', at: 'at (T)', lasts: 'for (T)', groups: 'sides', from: 'from', to: 'to', for: 'for (T)', forgets: 'forgets its memory'};

/** A first guess for the sides of a partition: the lower half against the upper half. */
export function halves(n) {
  const ids = Array.from({length: n}, (_, id) => id);
  const cut = Math.ceil(n / 2);
  return `${ids.slice(0, cut).join(',')}|${ids.slice(cut).join(',')}`;
}
