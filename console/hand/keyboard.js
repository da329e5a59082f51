// The keys of the page, and the list that explains them.

import {el} from '../lib/dom.js';
import {HELP, command, moved} from './keys.js';

/**
 * Listens until the returned function is called. `pending()` gives the messages in flight, `chosen()` the chosen one;
 * `choose(id)` chooses another; `go[name]()` carries out everything else.
 */
export function listenKeys({pending, chosen, choose, go}) {
  function onKey(event) {
    if (event.defaultPrevented) return;
    const at = event.target instanceof Element ? event.target : document.body;
    const wanted = command(event, {
      inField: at.closest('input, select, textarea, canvas, [contenteditable], .diagram') !== null,
      onButton: at.closest('button, a, summary, [role=button]') !== null,
    });
    if (!wanted) return;
    const messages = pending();
    if (wanted.choose !== undefined) {
      if (wanted.choose >= messages.length) return;
      choose(messages[wanted.choose].id);
    } else if (wanted.move !== undefined) {
      // A region that scrolls keeps its arrows.
      if (messages.length === 0 || at.closest('[role=region]')) return;
      choose(moved(messages, chosen(), wanted.move));
    } else {
      go[wanted.go]();
    }
    event.preventDefault();
  }
  document.addEventListener('keydown', onKey);
  return () => document.removeEventListener('keydown', onKey);
}

export function keyHelp() {
  const rows = HELP.map(([name, text]) => [el('dt', {}, el('kbd', {}, name)), el('dd', {}, text)]);
  return el('details', {class: 'keys'}, el('summary', {}, 'Keys'), el('dl', {}, rows));
}
