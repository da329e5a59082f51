// From the state of a group to what is drawn: a flat list of items with keys, which `tween.js` moves and `draw.js` draws.
// Pure functions.

import {mood, moodWord, part, stateWord} from '../hand/picture.js';
import {curve, freeBend, freeSpot, path, spots, towards} from './geometry.js';
import {FANO_CIRCLE, FANO_LINES, closest, fit, place} from './place.js';

/** The tone of a message by what it does, so that colours mean the same in every algorithm. */
const TONES = [
  ['ask', /^(REQUEST|ASK|ELECTION|COLLECT|WHO|APPEND|STORE|WAKE|STATE)$/],
  ['give', /^(REPLY|GRANT|OK|ACK|CONSENT|LOCKED|STORED|APPENDED|ADMIT|WELCOME|JOINED|REPORT)$/],
  ['token', /^(TOKEN|PRIVILEGE)$/],
  ['end', /^(BEAT|RELEASE|COORDINATOR|ELECTED|LEADS|NOTE|RESIGN|STEP-DOWN|SNAPSHOT|REPLICATE)$/],
  ['doubt', /^(INQUIRE|POSTPONE|RELINQUISH|FAILED|YIELD|DENY|REFUSE)$/],
];

export function tone({kind, app}) {
  if (app) return 'app';
  return TONES.find(([, pattern]) => pattern.test(kind))?.[0] ?? 'other';
}

/** A few letters that fit into a dot. */
const abbreviation = (kind) => (kind === 'app' ? 'app' : kind === 'TOKEN' ? 'T' : kind.slice(0, 3));

/** Pointers that are drawn as arrows. A pointer of another name is in the table only. */
const POINTERS = ['father', 'holder', 'next', 'successor', 'coordinator', 'primary', 'vote', 'consented to'];
/** On a ring these repeat the ring itself. */
const ALONG_THE_RING = ['next', 'successor'];
const QUEUES = ['queue', 'deferred', 'parked', 'buffer'];
const CHIPS_MAX = 4;

/**
 * All that is drawn of `state` (an answer of /api/hand) in a box of `width` times `height`.
 * `view`: `{chosen, selected, paused, hint, arrangement}`: the chosen message, the selected process, the paused processes, the hinted
 * message.
 */
export function model(state, {width, height}, view = {}) {
  const {structure, processes} = state;
  const placed = place(structure, processes, view.arrangement);
  const margin = {left: 58, right: 58, top: 46, bottom: 62};
  if (width < 480) margin.left = margin.right = 40;
  const points = fit(placed.points, {width, height, margin, round: placed.round});
  const near = closest(points);
  const radius = Math.max(11, Math.min(24, near * 0.3));
  const context = {state, points, radius, near, placed, view, width, height};
  return [
    ...voting(context),
    ...lines(context),
    ...pointers(context),
    ...asked(context),
    ...nodes(context),
    ...messages(context),
    ...tokens(context),
  ];
}

/** The edges of the structure. */
function lines({placed, points, radius, view}) {
  if (view.arrangement === 'fathers') return [];
  const items = placed.edges.map(([a, b]) => {
    const from = towards(points.get(a), points.get(b), radius);
    const to = towards(points.get(b), points.get(a), radius + (placed.directed ? 5 : 0));
    return {key: `edge ${a} ${b}`, type: 'edge', directed: placed.directed, x: from.x, y: from.y, x2: to.x, y2: to.y, opacity: 1};
  });
  if (placed.fano) {
    FANO_LINES.forEach((slots, index) => {
      const ids = slots.map((slot) => placed.fano[slot]);
      items.push({key: `line ${index}`, type: 'line', d: linePath(ids, index === FANO_CIRCLE, points), opacity: 1});
    });
  }
  return items;
}

/** A line of the plane: straight, or the circle through three points. */
function linePath(ids, isCircle, points) {
  const [a, b, c] = ids.map((id) => points.get(id));
  if (!isCircle) return `M${a.x} ${a.y}L${b.x} ${b.y}L${c.x} ${c.y}`;
  // The circle is stretched like the drawing: half of its width is the distance of two middles of sides.
  const x = (a.x + b.x + c.x) / 3;
  const y = (a.y + b.y + c.y) / 3;
  const rx = Math.max(...[a, b, c].map((point) => Math.abs(point.x - x))) / Math.cos(Math.PI / 6);
  const ry = Math.max(...[a, b, c].map((point) => Math.abs(point.y - y)));
  return `M${x - rx} ${y}A${rx} ${ry} 0 1 1 ${x + rx} ${y}A${rx} ${ry} 0 1 1 ${x - rx} ${y}Z`;
}

/** The voting set of each process that asks for votes, or of the selected one. */
function voting({state, points, placed, view, radius}) {
  const {quorums} = state.structure;
  if (!quorums) return [];
  return state.processes
    .filter((process) => quorums[process.id] && (process.waiting || process.inside || process.id === view.selected))
    .map((process) => {
      const ids = quorums[process.id].filter((id) => points.has(id));
      const slots = placed.fano && FANO_LINES.findIndex((line) => line.every((slot) => ids.includes(placed.fano[slot])));
      const d =
        placed.fano && slots >= 0
          ? linePath(
              FANO_LINES[slots].map((slot) => placed.fano[slot]),
              slots === FANO_CIRCLE,
              points,
            )
          : rays(process.id, ids, points);
      return {
        key: `set ${process.id}`,
        type: 'set',
        line: Boolean(placed.fano),
        series: process.id % 8,
        d,
        radius,
        opacity: 1,
        text: `Voting set of P${process.id}: ${ids.map((id) => `P${id}`).join(', ')}`,
      };
    });
}

/** From a process to each member of its voting set: on a grid these are its row and its column. */
function rays(owner, ids, points) {
  const {x, y} = points.get(owner);
  return ids.map((id) => `M${x} ${y}L${points.get(id).x} ${points.get(id).y}`).join('');
}

function pointers({state, points, radius, view, width, height}) {
  const ring = state.structure.shape === 'ring';
  return state.processes.flatMap((process) =>
    process.picture
      .filter(({name, kind, to}) => kind === 'pointer' && POINTERS.includes(name) && points.has(to) && to !== process.id)
      .filter(({name}) => !(ring && ALONG_THE_RING.includes(name)))
      // The coordinator is the same for all of a star, whose lines already say it.
      .filter(({name}) => !(state.structure.shape === 'star' && name === 'coordinator'))
      .map(({name, to}) => {
        const main = name === 'holder' || name === 'father';
        const room = {
          others: othersThan(points, process.id, to),
          clearance: radius,
          box: {width, height},
          bends: [0.2, -0.2, 0.3, -0.3, 0.08],
        };
        const bend = main ? 0 : freeBend(points.get(process.id), points.get(to), radius, room);
        const from = towards(points.get(process.id), points.get(to), radius + 2);
        const end = towards(points.get(to), points.get(process.id), radius + 6);
        return {
          key: `pointer ${name} ${process.id}`,
          type: 'pointer',
          name,
          bend,
          main,
          x: from.x,
          y: from.y,
          x2: end.x,
          y2: end.y,
          opacity: view.selected === undefined || view.selected === null || view.selected === process.id ? 1 : 0.35,
        };
      }),
  );
}

/** From the selected process to those that it has asked: a full line for a given vote, a dotted one for a missing answer. */
function asked({state, points, radius, view}) {
  const process = state.processes.find(({id}) => id === view.selected);
  if (!process || !(process.waiting || process.inside)) return [];
  const members = (names) => names.flatMap((name) => part(process, name)?.of ?? []).filter((id) => id !== process.id && points.has(id));
  const given = new Set(members(['granted', 'votes', 'consents']));
  const missing = new Set(
    [...members(['awaiting', 'missing', 'storing', 'asked']), ...(process.waiting ? members(['request set']) : [])].filter(
      (id) => !given.has(id),
    ),
  );
  const spoke = (id, answered) => {
    const from = towards(points.get(process.id), points.get(id), radius);
    const to = towards(points.get(id), points.get(process.id), radius);
    return {key: `asked ${process.id} ${id}`, type: 'asked', answered, x: from.x, y: from.y, x2: to.x, y2: to.y, opacity: 1};
  };
  return [...[...given].map((id) => spoke(id, true)), ...[...missing].map((id) => spoke(id, false))];
}

function nodes({state, points, radius, near, placed, view}) {
  const suspected = new Map();
  for (const process of state.processes) for (const of of process.suspects) suspected.set(of, [...(suspected.get(of) ?? []), process.id]);
  return state.processes.map((process) => {
    const {x, y} = points.get(process.id);
    const queue = QUEUES.map((name) => part(process, name)).find((candidate) => candidate?.kind === 'queue' && candidate.of.length > 0);
    return {
      key: `p${process.id}`,
      type: 'node',
      id: process.id,
      x,
      y,
      opacity: 1,
      radius,
      mood: mood(process),
      helper: process.role === 'helper',
      leads: process.leader === process.id,
      paused: Boolean(view.paused?.has(process.id)),
      selected: process.id === view.selected,
      caption: near < 84 ? '' : process.up ? (stateWord(process) ?? (process.role === 'helper' ? '' : moodWord(process))) : 'down',
      queue: queue ? {name: queue.name, chips: chips(queue.of)} : null,
      beside: Boolean(placed.inner?.has(process.id)),
      suspectedBy: suspected.get(process.id) ?? [],
    };
  });
}

/** The heads of a queue, and how many more there are. */
export function chips(queue) {
  const shown = queue.slice(0, queue.length > CHIPS_MAX ? CHIPS_MAX - 1 : CHIPS_MAX).map(({process}) => String(process));
  return queue.length > CHIPS_MAX ? [...shown, `+${queue.length - shown.length}`] : shown;
}

/** The places of all processes but two. */
function othersThan(points, a, b) {
  return [...points].filter(([id]) => id !== a && id !== b).map(([, point]) => point);
}

/** The messages in flight, on the curves of their links. */
function messages({state, points, radius, view, width, height}) {
  const links = new Map();
  for (const message of state.pending) {
    const link = `${message.from} ${message.to}`;
    links.set(link, [...(links.get(link) ?? []), message]);
  }
  const crowded = state.pending.length > 14;
  const faint = state.pending.length > 40;
  const items = [];
  const taken = [];
  for (const [link, ofLink] of links) {
    const {from, to} = ofLink[0];
    const ends = [points.get(from), points.get(to), radius + 3];
    const bow = curve(...ends, freeBend(...ends, {others: othersThan(points, from, to), clearance: radius + 10, box: {width, height}}));
    const angle = (Math.atan2(bow.to.y - bow.control.y, bow.to.x - bow.control.x) * 180) / Math.PI;
    items.push({
      key: `link ${link}`,
      type: 'link',
      d: path(bow),
      faint,
      end: bow.to,
      angle,
      opacity: 1,
      chosen: ofLink.some(({id}) => id === view.chosen),
    });
    const at = spots(ofLink.length);
    ofLink.forEach((message, index) => {
      const spot = freeSpot(bow, at[index], taken, crowded ? 12 : 22);
      taken.push(spot);
      items.push({
        key: `m${message.id}`,
        type: 'message',
        id: message.id,
        ...spot,
        opacity: 1,
        tone: tone(message),
        short: abbreviation(message.kind),
        text: `#${message.id} P${from} → P${to} ${message.text}`,
        blocked: message.blocked,
        waits: Boolean(view.paused?.has(to)),
        copy: message.id !== message.original,
        crowded,
        chosen: message.id === view.chosen,
        hinted: message.id === view.hint,
        source: points.get(from),
        target: points.get(to),
      });
    });
  }
  // Dots lie on all lines.
  return items.sort((a, b) => (a.type === 'link' ? 0 : 1) - (b.type === 'link' ? 0 : 1));
}

/** The token at a process, with the state that travels with it. In flight it is a message. */
function tokens({state, points, radius, width}) {
  return state.processes.flatMap((process) => {
    const token = process.picture.find(({kind}) => kind === 'token');
    if (!token) return [];
    const {x, y} = points.get(process.id);
    const queue = token.carries.find(({kind}) => kind === 'queue');
    const side = x > width * 0.6 ? -1 : 1;
    return [
      {
        key: `token ${process.id}`,
        type: 'token',
        x: x + side * radius * 0.85,
        y: y - radius * 0.85,
        side,
        opacity: 1,
        fence: token.fence,
        queue: queue ? {name: queue.name, chips: chips(queue.of)} : null,
      },
    ];
  });
}

/** What the signs of a drawing mean, for the legend. Only what is there. */
export function legend(items) {
  const has = (type) => items.some((item) => item.type === type);
  const tokenAt = has('token') || items.some((item) => item.tone === 'token');
  const names = [...new Set(items.filter((item) => item.type === 'pointer').map(({name}) => name))];
  const tones = [...new Set(items.filter((item) => item.type === 'message').map((item) => item.tone))];
  return [
    ...names.map((name) => ({sign: items.find((item) => item.name === name).main ? 'main-pointer' : 'pointer', text: name})),
    ...(tokenAt ? [{sign: 'token', text: 'token'}] : []),
    ...(has('set') ? [{sign: 'set', text: 'voting set'}] : []),
    ...(has('asked')
      ? [
          {sign: 'given', text: 'vote given'},
          {sign: 'missing', text: 'answer missing'},
        ]
      : []),
    ...tones.filter((name) => name !== 'token').map((name) => ({sign: `tone-${name}`, text: TONE_WORDS[name]})),
  ];
}

const TONE_WORDS = {
  ask: 'asks',
  give: 'gives',
  end: 'tells or releases',
  doubt: 'asks back or refuses',
  app: 'application',
  other: 'message',
};
