// The parts of a process's picture, in the words of the paper, as short texts. Pure functions.

/** A part as pieces of text for one cell: `{text, tone}`. */
export function cell(part) {
  switch (part.kind) {
    case 'field':
      return field(part.value);
    case 'pointer':
      return part.to === null || part.to === undefined ? {text: '–', empty: true} : {text: `→ P${part.to}`};
    case 'set':
      return part.of.length === 0 ? {text: '∅', empty: true} : {text: `{${part.of.join(', ')}}`};
    case 'queue':
      return part.of.length === 0 ? {text: '–', empty: true} : {text: part.of.map(queued).join(' ‹ ')};
    case 'numbers':
      return part.of.length === 0 ? {text: '–', empty: true} : {text: numbers(part.of)};
    case 'token': {
      const carried = part.carries.map((inner) => `${inner.name} ${cell(inner).text}`);
      return {text: [`fence ${part.fence}`, ...carried].join(' · '), token: true};
    }
    default:
      return {text: String(part.kind)};
  }
}

function field(value) {
  if (value === null || value === undefined) return {text: '–', empty: true};
  if (value === true) return {text: 'yes'};
  if (value === false) return {text: 'no', empty: true};
  return {text: String(value)};
}

/** An array if every process has its number, as in the papers; otherwise each number with its process. */
function numbers(of) {
  const whole = of.length > 1 && of.every(([process], index) => process === index);
  return whole ? `[${of.map(([, count]) => count).join(' ')}]` : of.map(([process, count]) => `P${process}: ${count}`).join(', ');
}

const queued = ({process, stamp}) => (stamp === undefined || stamp === null ? `P${process}` : `P${process}@${stamp}`);

/**
 * The table of all pictures: a row for each name of a part, in the order in which the processes show them, and a cell for
 * each process. `before` is the step before; what differs from it is marked.
 */
export function table(processes, before = []) {
  const names = [];
  for (const process of processes) {
    let at = 0;
    for (const {name} of process.picture) {
      const known = names.indexOf(name);
      if (known >= 0) at = known + 1;
      else names.splice(at++, 0, name);
    }
  }
  const partOf = (process, name) => process?.picture.find((part) => part.name === name);
  return names.map((name) => ({
    name,
    cells: processes.map((process, index) => {
      const part = partOf(process, name);
      const old = partOf(before[index], name);
      const shown = part ? cell(part) : {text: '', empty: true};
      const changed = before.length > 0 && (old ? cell(old).text : '') !== shown.text;
      return {...shown, changed};
    }),
  }));
}

/** The part with this name, or undefined. */
export const part = (process, name) => process.picture.find((candidate) => candidate.name === name);

/** The word of the algorithm for the state of the process, such as `Waiting`. */
export function stateWord(process) {
  const state = part(process, 'state');
  return state?.kind === 'field' && typeof state.value === 'string' ? state.value : null;
}

/** What the process does, for its colour. */
export function mood(process) {
  if (!process.up) return 'down';
  if (process.inside) return 'inside';
  if (process.waiting) return 'waiting';
  if (process.leader === process.id) return 'leads';
  return 'idle';
}

/** The mood in words. */
export function moodWord(process) {
  if (process.up && !process.ready) return 'catching up';
  const suspects = part(process, 'suspects');
  // The process of a failure detector neither waits nor leads.
  if (process.up && suspects?.kind === 'set') return suspects.of.length > 0 ? `suspects ${suspects.of.map((id) => `P${id}`).join(', ')}` : 'trusts all';
  return {down: 'down', inside: 'inside', waiting: 'waiting', leads: 'leads', idle: 'idle'}[mood(process)];
}
