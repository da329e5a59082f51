// What the lamp of a property shows. Pure functions.

/**
 * Tone and word of a lamp. Red is a broken promise. What the algorithm never promised is amber if it is
 * violated, and without a colour otherwise.
 * The word says the same as the colour, for readers who cannot see it.
 */
export function look({state, promised}) {
  switch (state) {
    case 'holds':
      return promised ? {tone: 'good', word: 'holds'} : {tone: 'off', word: 'not promised, not violated so far'};
    case 'violated':
      return promised ? {tone: 'bad', word: 'violated'} : {tone: 'warn', word: 'violated, not promised'};
    case 'stuck':
      return promised ? {tone: 'bad', word: 'stuck'} : {tone: 'warn', word: 'stuck, not promised'};
    default:
      return {tone: 'off', word: 'not checked'};
  }
}

/** Whether the lamp says that the property is broken, promised or not. */
export const isBroken = ({state}) => state === 'violated' || state === 'stuck';

/** What changed for the worse between two rows of lamps, as a sentence for a screen reader; empty if nothing did. */
export function news(before, after) {
  const was = new Map(before.map((lamp) => [lamp.property, lamp.state]));
  return after
    .filter((lamp) => was.get(lamp.property) !== lamp.state && (isBroken(lamp) || was.has(lamp.property)))
    .map((lamp) => `${lamp.property}: ${look(lamp).word}${lamp.detail ? `, ${lamp.detail}` : ''}.`)
    .join(' ');
}

/**
 * The number of steps after which the lamp of `property` was broken first, or null if it is not. A violation stays, so the
 * run may go on after it. A stuck group is seen only where it is shown, after `steps`.
 */
export function stepsToBreak({lamps, log}, property, steps) {
  const lamp = lamps.find((one) => one.property === property);
  if (!lamp || !isBroken(lamp)) return null;
  const first = log.findIndex(({violations}) => violations.some((violation) => violation.property === property));
  return first >= 0 ? first : steps;
}
