// The actions of a run as a short text for the address, version 1.
//
// Steps are joined by dots: `q0.q1.d0` is request 0, request 1, deliver #0. Branches stand in parentheses after the
// step at which they start: `q0(d0.d1)(d1.d0!)`. `!` marks the step that is shown; without it, the last step of the
// first branch is shown. A branch has a name in quotes at its first step: `d1'other way'`, with other characters than
// letters, digits and `-` as `~` and two hex digits per byte. All characters survive encodeURIComponent.

import {parts} from './action.js';
import {STEPS_MAX, NODES_MAX, NAME_MAX, newTree, step, rename} from './tree.js';

export const VERSION = '1';
const TEXT_MAX = 200_000;

/** A link that cannot be read. The message is a sentence for the reader of the page. */
export class BadLink extends Error {}

const LETTERS = {
  request: 'q',
  release: 'l',
  elect: 'e',
  append: 'w',
  deliver: 'd',
  drop: 'x',
  duplicate: 'c',
  forge: 'f',
  timer: 't',
  suspect: 's',
  trust: 'u',
  crash: 'k',
  recover: 'r',
  forget: 'm',
  app: 'a',
  choose: 'o',
};

export function encodeAction(action) {
  const {name, fields} = parts(action);
  switch (name) {
    case 'user':
      return typeof fields.wish === 'object'
        ? `${LETTERS.append}${fields.process}_${fields.wish.append}`
        : `${LETTERS[fields.wish]}${fields.process}`;
    case 'deliver':
    case 'drop':
    case 'duplicate':
      return `${LETTERS[name]}${fields.message}`;
    case 'forge':
      return `${LETTERS.forge}${fields.from}_${fields.to}_${fields.like}`;
    case 'timer':
      return `${LETTERS.timer}${fields.process}_${escape(fields.name)}`;
    case 'suspect':
    case 'trust':
      return `${LETTERS[name]}${fields.by}_${fields.of}`;
    case 'crash':
      return `${LETTERS.crash}${fields.process}`;
    case 'recover':
      return `${fields.memory ? LETTERS.recover : LETTERS.forget}${fields.process}`;
    case 'app':
      return `${LETTERS.app}${fields.from}_${fields.to}`;
    case 'choose':
      return `${LETTERS.choose}${fields.script.join('_')}`;
    default:
      throw new Error(`no code for the action ${name}`);
  }
}

export function decodeAction(code) {
  const letter = code[0];
  const rest = code.slice(1);
  if (letter === LETTERS.timer) {
    const cut = rest.indexOf('_');
    if (cut < 1 || cut === rest.length - 1) throw notAStep(code);
    return {timer: {process: number(rest.slice(0, cut), code), name: unescape(rest.slice(cut + 1), code)}};
  }
  const numbers = rest.split('_').map((text) => number(text, code));
  const make = {
    q: [1, (process) => ({user: {process, wish: 'request'}})],
    l: [1, (process) => ({user: {process, wish: 'release'}})],
    e: [1, (process) => ({user: {process, wish: 'elect'}})],
    w: [2, (process, append) => ({user: {process, wish: {append}}})],
    d: [1, (message) => ({deliver: {message}})],
    x: [1, (message) => ({drop: {message}})],
    c: [1, (message) => ({duplicate: {message}})],
    f: [3, (from, to, like) => ({forge: {from, to, like}})],
    s: [2, (by, of) => ({suspect: {by, of}})],
    u: [2, (by, of) => ({trust: {by, of}})],
    k: [1, (process) => ({crash: {process}})],
    r: [1, (process) => ({recover: {process, memory: true}})],
    m: [1, (process) => ({recover: {process, memory: false}})],
    a: [2, (from, to) => ({app: {from, to}})],
    o: [null, (...script) => ({choose: {script}})],
  };
  if (!Object.hasOwn(make, letter)) throw notAStep(code);
  const [count, build] = make[letter];
  if (count !== null && numbers.length !== count) throw notAStep(code);
  if (letter === 'w' && numbers[1] > 255) throw notAStep(code);
  return build(...numbers);
}

/** The whole tree, or only the way to the shown step if the tree has no other branch. */
export function encodeTree(tree) {
  const leaf = lastOfFirstBranch(tree);
  const node = (id) => tree.nodes[id];
  const mark = (id) => (id === tree.current && id !== leaf ? '!' : '');
  const name = (id) => (node(id).name ? `'${escape(node(id).name)}'` : '');
  let text = mark(0);
  // What is still to be written, last first: a node, or a closing parenthesis.
  const rest = [...childrenInReverse(0)];
  function childrenInReverse(id) {
    const children = node(id).children;
    if (children.length < 2) return children.map((child) => ({child, dot: id !== 0}));
    return children.flatMap((child) => [{open: child}]).reverse();
  }
  while (rest.length > 0) {
    const next = rest.pop();
    if (next.close) {
      text += ')';
      continue;
    }
    const id = next.child ?? next.open;
    if (next.open !== undefined) {
      text += '(';
      rest.push({close: true});
    } else if (next.dot) text += '.';
    text += encodeAction(node(id).action) + name(id) + mark(id);
    rest.push(...childrenInReverse(id));
  }
  return text;
}

export function decodeTree(text) {
  if (text.length > TEXT_MAX) throw new BadLink('The link is too long to be a run of this page.');
  let tree = newTree();
  let shown = null;
  let at = 0;
  let here = 0;
  /** The steps at which the open parentheses started. */
  const forks = [];
  let expectStep = true;
  if (text[at] === '!') {
    shown = 0;
    at += 1;
  }
  while (at < text.length) {
    const sign = text[at];
    if (sign === '(') {
      if (forks.length > 0 && expectStep && text[at - 1] === '(') throw damaged(at, 'a branch must start with a step');
      forks.push(here);
      expectStep = true;
      at += 1;
    } else if (sign === ')') {
      if (forks.length === 0 || expectStep) throw damaged(at, 'a parenthesis is in the wrong place');
      here = forks.pop();
      at += 1;
      // After a branch comes another branch, or the end of the branch around it.
      if (at < text.length && text[at] !== '(' && text[at] !== ')') throw damaged(at, 'a branch is in the wrong place');
    } else {
      if (sign === '.') {
        if (expectStep) throw damaged(at, 'a step is missing');
        at += 1;
      } else if (!expectStep) throw damaged(at, 'a dot is missing');
      const code = /^[a-z][A-Za-z0-9_~-]*/.exec(text.slice(at, at + 400))?.[0];
      if (code === undefined) throw damaged(at, 'a step is missing');
      if (tree.nodes[here].depth >= STEPS_MAX) throw new BadLink(`The link has more than ${STEPS_MAX} steps in one run.`);
      if (tree.nodes.length > NODES_MAX) throw new BadLink(`The link has more than ${NODES_MAX} steps.`);
      const nodes = tree.nodes.length;
      tree = step({...tree, current: here}, decodeAction(code));
      if (tree.nodes.length === nodes) throw damaged(at, 'two branches start with the same step');
      here = tree.current;
      at += code.length;
      expectStep = false;
      const quoted = /^'([A-Za-z0-9~-]*)'/.exec(text.slice(at, at + 4 * 3 * NAME_MAX));
      if (quoted) {
        tree = rename(tree, here, unescape(quoted[1], quoted[0]));
        at += quoted[0].length;
      }
      if (text[at] === '!') {
        if (shown !== null) throw damaged(at, 'two steps are marked');
        shown = here;
        at += 1;
      }
    }
  }
  if (forks.length > 0 || (expectStep && tree.nodes.length > 1)) throw damaged(at, 'its end is missing');
  return {...tree, current: shown ?? lastOfFirstBranch(tree)};
}

function lastOfFirstBranch(tree) {
  let id = 0;
  while (tree.nodes[id].children.length > 0) id = tree.nodes[id].children[0];
  return id;
}

function number(text, code) {
  if (!/^(0|[1-9][0-9]{0,8})$/.test(text)) throw notAStep(code);
  return Number(text);
}

function notAStep(code) {
  return new BadLink(`The link is damaged: \`${code.slice(0, 40)}\` is no step.`);
}

function damaged(at, why) {
  return new BadLink(`The link is damaged at character ${at + 1} of its steps: ${why}.`);
}

function escape(text) {
  const bytes = new TextEncoder().encode(text);
  const plain = (byte) => /[A-Za-z0-9-]/.test(String.fromCharCode(byte));
  return Array.from(bytes, (byte) =>
    byte < 128 && plain(byte) ? String.fromCharCode(byte) : `~${byte.toString(16).padStart(2, '0')}`,
  ).join('');
}

function unescape(text, code) {
  if (!/^([A-Za-z0-9-]|~[0-9a-f]{2})*$/.test(text)) throw notAStep(code);
  const bytes = text.replace(/~([0-9a-f]{2})|(.)/g, (_, hex, letter) => hex ?? letter.charCodeAt(0).toString(16));
  const values = new Uint8Array((bytes.match(/../g) ?? []).map((hex) => Number.parseInt(hex, 16)));
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(values);
  } catch {
    throw notAStep(code);
  }
}
