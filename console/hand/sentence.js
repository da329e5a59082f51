// What the server says, as sentences. Pure functions.

import {plural} from '../lib/format.js';

/** The server's words as a sentence. */
export function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? '' : '.'}`;
}

/** The property that a reader breaks. Who is stuck for ever has no liveness; "break deadlock" would say the opposite. */
export const brokenProperty = (property) => (property === 'deadlock' ? 'liveness' : property);

/** What a challenge asks for, as the beginning of a sentence. */
export const goalText = (property) => (property === 'deadlock' ? 'Make them wait for ever (break liveness)' : `Break ${property}`);

/** What the checker found, as a sentence. */
export function distanceText({result, steps, states, property, text}) {
  const looked = !states ? '' : ` The checker looked at ${plural(states, 'state')}.`;
  if (result === 'violated' && steps === 0) return property === 'deadlock' ? 'They wait for ever here: liveness is broken.' : `${sentence(property).slice(0, -1)} is violated here.`;
  if (result === 'violated') return `${plural(steps, 'step')} from here to ${property === 'deadlock' ? 'a group that waits for ever' : `a violation of ${property}`}.${looked}`;
  return `${sentence(text)}${looked}`;
}
