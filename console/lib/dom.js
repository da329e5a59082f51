// Elements without markup: every text is set as text, so that no name from outside becomes markup.

import {visible} from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an element. `attributes` may have `class`, `on` (listeners by event), `data`, and any attribute; `true` sets an attribute
 * without a value, `false`, `null` and `undefined` leave it out. Children are elements, texts, or lists of them.
 */
export function el(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === 'data') {
      Object.assign(element.dataset, value);
    } else if (name === 'value' && 'value' in element) {
      element.value = value;
    } else {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
}

/** A sentence in which words between backticks are code. */
export function withCode(text) {
  return String(text ?? '').split('`').map((part, at) => (at % 2 ? el('code', {}, part) : part));
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A button with a text or an icon. `label` is what a screen reader says if the button shows only an icon. */
export function button(content, click, attributes = {}) {
  return el('button', {type: 'button', on: {click}, ...attributes}, content);
}

/** A labelled field: the label stands above the control. */
export function field(label, control, hint) {
  control.id ||= `f${++fields}`;
  const note = hint && el('span', {class: 'hint', id: `${control.id}-hint`}, hint);
  if (note) control.setAttribute('aria-describedby', note.id);
  return el('div', {class: 'field'}, el('label', {for: control.id}, label), control, note);
}
let fields = 0;

/** A select. Options are texts or `{value, text, group}`. */
export function select(options, value, change) {
  const control = el('select', {on: {change: () => change?.(control.value)}});
  const groups = new Map();
  for (const option of options) {
    const {value: its, text = its, group} = typeof option === 'object' ? option : {value: option};
    let parent = control;
    if (group) {
      if (!groups.has(group)) groups.set(group, control.appendChild(el('optgroup', {label: group})));
      parent = groups.get(group);
    }
    parent.append(el('option', {value: its}, text));
  }
  control.value = value;
  return control;
}

/** Copies a text and says so on the button for a moment. */
export async function copy(text, from) {
  const said = from.textContent;
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = 'Copied';
  } catch {
    from.textContent = 'Cannot copy here';
  }
  setTimeout(() => { from.textContent = said; }, 1500);
}

/** Calls `run` once, `wait` milliseconds after the last call. */
export function debounce(run, wait) {
  let timer;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
