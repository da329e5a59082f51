// What the server says, as sentences. Pure functions.

import {plural} from '../lib/format.js';

/** The server's words as a sentence. */
export function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? '' : '.'}`;
}

/** What the checker found, as a sentence. */
export function distanceText({result, steps, states, property, text}) {
  const looked = states === undefined || states === null ? '' : ` The checker looked at ${plural(states, 'state')}.`;
  if (result === 'violated' && steps === 0) return `${property} is violated here.`;
  if (result === 'violated') return `${plural(steps, 'step')} from here to a violation of ${property}.${looked}`;
  if (result === 'holds') return `No violation can be reached from here.${looked}`;
  return text ? sentence(text) : `The checker found no violation within its limits.${looked}`;
}
