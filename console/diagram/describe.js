// What the pointer is on, for the tooltip.

import {el} from '../lib/dom.js';
import {body, time} from '../lib/format.js';

export function describe({type, placed}, unit) {
  const {item} = placed;
  if (type === 'arrow') return arrow(item, unit);
  if (type === 'mark') return [el('b', {}, item.process === null ? item.text : `P${item.process} ${item.text}`), facts([['when', time(item.t, unit)], ['record', item.seq]])];
  return [el('b', {}, `P${item.process} ${BARS[item.kind] ?? item.kind}`), facts([['', item.label], ['from', time(item.from.t, unit)], ['to', item.to ? time(item.to.t, unit) : 'the end']])];
}

const BARS = {waiting: 'waits', inside: 'is in the critical section', leads: 'leads', down: 'is down', paused: 'is paused'};

function arrow(item, unit) {
  const fields = item.body && typeof item.body === 'object' ? Object.entries(item.body).map(([name, value]) => [name, body(value)]) : [];
  const end = item.end ? time(item.end.t, unit) : 'still under way';
  const fate = item.fate?.lost ? `lost (${REASONS[item.fate.lost] ?? item.fate.lost})` : item.fate === 'duplicate' ? 'arrived a second time' : null;
  return [
    el('b', {}, `P${item.from} → P${item.to} ${item.is_app ? 'application message' : item.kind}`),
    fields.length > 0 && facts(fields, 'body'),
    facts([['sent', time(item.start.t, unit)], [item.fate?.lost ? 'lost' : 'arrives', end], ['', fate]]),
  ];
}

const REASONS = {loss: 'by the network', partition: 'between the sides of a partition', crashed: 'the receiver is down'};

function facts(rows, kind = '') {
  const said = rows.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return el('dl', {class: `facts ${kind}`}, said.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, String(value))]));
}
