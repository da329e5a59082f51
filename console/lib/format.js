// Numbers and names as text. Pure functions.

// Control characters, marks of the writing direction, and characters without width. A name from outside could use them to
// look like another name, so each is shown as its code.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The text with every character that cannot be seen written as its code, as in `\u{202e}`. */
export function visible(text) {
  return String(text ?? '').replace(HIDDEN, (character) => `\\u{${character.charCodeAt(0).toString(16)}}`);
}

/** A number with at most `digits` decimals and with thin spaces between groups of three digits from 10,000 on. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'number') return visible(value);
  if (!Number.isFinite(value)) return String(value);
  const [whole, decimals] = String(Number(value.toFixed(digits))).split('.');
  const grouped = Math.abs(value) < 10_000 || whole.includes('e') ? whole : whole.replace(/\B(?=(\d{3})+$)/g, '\u2009');
  return decimals ? `${grouped}.${decimals}` : grouped;
}

/** A time with its unit, as in `3.5 T`. Steps and ticks are counted, so their word comes first. */
export function time(value, unit = 'T') {
  return unit === 'step' || unit === 'tick' ? `${unit} ${number(value)}` : `${number(value)} ${unit}`;
}

export function plural(count, word, words = `${word}s`) {
  return `${number(count)} ${count === 1 ? word : words}`;
}

/** A JSON value as the traces of the checker write it: `{time: 1, request: 1}`. */
export function body(value) {
  if (Array.isArray(value)) return `[${value.map(body).join(', ')}]`;
  if (value && typeof value === 'object') {
    return `{${Object.entries(value).map(([name, inner]) => `${visible(name)}: ${body(inner)}`).join(', ')}}`;
  }
  return typeof value === 'string' ? visible(value) : JSON.stringify(value) ?? '–';
}

/** The first words of a text, cut at `length` characters. */
export function short(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1).trimEnd()}…`;
}

/** The text with a capital at its start and a full stop at its end. */
export function sentence(text) {
  return text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}` : '';
}

/** Words joined as in a sentence: `a, b and c`. */
export function list(words) {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
