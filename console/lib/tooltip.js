// One tooltip for the whole page: for words of the glossary and for what the pointer is on in a diagram.

import {el, fill} from './dom.js';
import {visible} from './format.js';
import {index, pieces} from './glossary.js';

const tip = el('div', {class: 'tip', role: 'tooltip', id: 'tip', hidden: true});
let owner = null;
let words = index([]);

export function install(glossary) {
  words = index(glossary);
  if (tip.isConnected) return;
  document.body.append(tip);
  document.addEventListener('keydown', (event) => event.key === 'Escape' && hide());
  document.addEventListener('scroll', () => hide(), {capture: true, passive: true});
}

/** Shows the content beside a point of the window, or beside an element. */
export function show(content, at, from = null) {
  owner = from;
  fill(tip, content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const place = at instanceof Element ? at.getBoundingClientRect() : {left: at.x, bottom: at.y, top: at.y, width: 0};
  const left = Math.max(8, Math.min(place.left, innerWidth - box.width - 8));
  const below = place.bottom + 12;
  const top = below + box.height > innerHeight - 8 ? Math.max(8, place.top - box.height - 12) : below;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

export function hide(from = null) {
  if (from && owner !== from) return;
  tip.hidden = true;
  owner = null;
}

/** A word that shows its meaning on hover and on focus. */
export function term(text, word, meaning) {
  const element = el('span', {class: 'term', tabindex: '0', 'aria-describedby': 'tip'}, text);
  const content = () => [el('b', {}, word), el('p', {}, meaning.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, ''))];
  const on = () => show(content(), element, element);
  const off = () => hide(element);
  for (const event of ['pointerenter', 'focus']) element.addEventListener(event, on);
  for (const event of ['pointerleave', 'blur']) element.addEventListener(event, off);
  return element;
}

/** The text with the words of the glossary explained, each once. */
export function explained(text, seen = new Set()) {
  return pieces(visible(text), words, seen).map((piece) => (piece.word ? term(piece.text, piece.word, piece.meaning) : piece.text));
}

/** The words of the glossary for the names of properties in reports. */
const PROMISES = {safety: 'safe', liveness: 'live', order: 'order', fence: 'fence'};

/** A label that is a word of the glossary or the name of a property, or contains such a word. */
export function label(text) {
  const known = words.meanings.get(PROMISES[text] ?? text.toLowerCase());
  return known ? term(text, known.word, known.meaning) : explained(text);
}

/** Explains words in elements that are already on the page, such as rendered documentation. */
export function explainIn(root, selector = 'p, li, td') {
  const seen = new Set();
  for (const element of root.querySelectorAll(selector)) {
    for (const node of [...element.childNodes]) {
      if (node.nodeType === Node.TEXT_NODE) node.replaceWith(...explained(node.data, seen));
    }
  }
}
