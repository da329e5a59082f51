// What the server says, as sentences. Pure functions.

import {plural} from '../lib/format.js';

/** The server's words as a sentence. */
export function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? '' : '.'}`;
}

/** What the checker found, as a sentence. */
export function distanceText({result, steps, states, property, text}) {
  const looked = !states ? '' : ` The checker looked at ${plural(states, 'state')}.`;
  if (result === 'violated' && steps === 0) return `${property} is violated here.`;
  if (result === 'violated') return `${plural(steps, 'step')} from here to a violation of ${property}.${looked}`;
  return `${sentence(text)}${looked}`;
}
