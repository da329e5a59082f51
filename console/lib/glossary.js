// Finds the words of the glossary in a text. Pure functions.

/** An index of the glossary: words in lower case, longest first, so that "client delay" wins over "delay". */
export function index(glossary) {
  const meanings = new Map();
  for (const {word, meaning} of glossary) {
    const key = word.toLowerCase();
    // Single letters such as T and n would light up in every sentence.
    if (key.length > 2 && !meanings.has(key)) meanings.set(key, {word, meaning});
  }
  const words = [...meanings.keys()].sort((a, b) => b.length - a.length);
  const pattern = words.length && new RegExp(`(?<![\\w-])(${words.map(escape).join('|')})(s|es)?(?![\\w-])`, 'gi');
  return {meanings, pattern};
}

/** The text in pieces: `{text}` or `{text, word, meaning}`. Each word is explained once; `seen` holds words already explained. */
export function pieces(text, {meanings, pattern}, seen = new Set()) {
  const found = [];
  let from = 0;
  for (const match of pattern ? text.matchAll(pattern) : []) {
    const key = match[1].toLowerCase();
    // SAFE and ORDER are names of promises; "safe" and "order" are words like others.
    const {word} = meanings.get(key);
    const isName = word === word.toUpperCase() && word !== word.toLowerCase();
    if (seen.has(key) || (isName && match[1] !== word)) continue;
    seen.add(key);
    if (match.index > from) found.push({text: text.slice(from, match.index)});
    found.push({text: match[0], ...meanings.get(key)});
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({text: text.slice(from)});
  return found;
}

const escape = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
