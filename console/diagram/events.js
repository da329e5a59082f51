// The events of a scene in the order of their records, and their rank in Lamport's happened-before. Pure functions.

/**
 * Every record that the scene draws, once, by ascending `seq`: `{seq, t, process, item}`. `process` is null for events of the
 * whole network, `item` is what the record begins or ends.
 */
export function events(scene) {
  const found = new Map();
  const add = ({seq, t}, process, what, item) => {
    // An arrow says more about a record than the bar that starts with it.
    const known = found.get(seq);
    if (!known) found.set(seq, {seq, t, process, what, item});
    else if (what === 'sent' || what === 'arrived') Object.assign(known, {what, item});
  };
  for (const bar of scene.bars) {
    add(bar.from, bar.process, 'begins', bar);
    if (bar.to) add(bar.to, bar.process, 'ends', bar);
  }
  for (const mark of scene.marks) add(mark, mark.process, 'mark', mark);
  for (const arrow of scene.arrows) {
    add(arrow.start, arrow.from, 'sent', arrow);
    if (arrow.end) add(arrow.end, arrow.to, 'arrived', arrow);
  }
  for (const violation of scene.violations) add(violation, null, 'violation', violation);
  return [...found.values()].sort((a, b) => a.seq - b.seq);
}

/**
 * The column of each event if the scene is spaced by logical order: one more than the column of every event that happened
 * before it, which is the event before it at its process and, for an arrival, the send. An event of the whole network comes after
 * all earlier ones.
 */
export function ranks(scene, all = events(scene)) {
  const rank = new Map();
  const sends = new Map();
  for (const arrow of scene.arrows) if (arrow.end) push(sends, arrow.end.seq, arrow.start.seq);
  const last = new Map();
  let barrier = -1;
  let most = -1;
  for (const {seq, process} of all) {
    let column = process === null ? most : Math.max(barrier, last.get(process) ?? -1);
    for (const send of sends.get(seq) ?? []) column = Math.max(column, rank.get(send) ?? -1);
    column += 1;
    rank.set(seq, column);
    most = Math.max(most, column);
    if (process === null) barrier = column;
    else last.set(process, column);
  }
  return {rank, columns: most + 1};
}

/** What the record does, in words. */
export function inWords({what, item}) {
  switch (what) {
    case 'sent': return `P${item.from} sends ${item.label} to P${item.to}`;
    case 'arrived': return item.fate?.lost ? `${item.label} from P${item.from} to P${item.to} is lost` : `P${item.to} gets ${item.label} from P${item.from}`;
    case 'begins': return `P${item.process} ${BEGINS[item.kind] ?? item.kind}${item.label ? ` (${item.label})` : ''}`;
    case 'ends': return `P${item.process} ${ENDS[item.kind] ?? `ends: ${item.kind}`}`;
    case 'violation': return `${item.property} is violated: ${item.detail}`;
    default: return item.process === null ? item.text : `P${item.process}: ${item.text}`;
  }
}

const BEGINS = {waiting: 'asks', inside: 'enters', leads: 'leads', down: 'crashes', paused: 'pauses'};
const ENDS = {waiting: 'waits no longer', inside: 'leaves', leads: 'leads no longer', down: 'recovers', paused: 'resumes'};

/** The index of the event with this record, or of the last one before it; -1 if there is none. */
export function indexOf(all, seq) {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function push(map, key, value) {
  const values = map.get(key);
  if (values) values.push(value);
  else map.set(key, [value]);
}
