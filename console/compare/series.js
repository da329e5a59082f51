// Rows of the comparison as series of points and lines. Pure functions.

export const MEASURES = {
  messages: {title: 'Messages per entry', axis: 'messages', measured: (row) => row.messages_per_entry, expected: (row) => row.theory?.messages_per_entry},
  client: {title: 'Client delay', axis: 'T', measured: (row) => row.client_delay_mean, expected: (row) => row.theory?.client_delay},
  sync: {title: 'Synchronization delay', axis: 'T', measured: (row) => row.sync_delay_mean, expected: (row) => row.theory?.sync_delay},
  busiest: {title: 'Messages of the busiest process', axis: 'messages per entry', measured: (row) => row.messages_per_process?.max, expected: (row) => row.theory?.busiest},
};

export const nameOf = ({algorithm, variant}) => (variant ? `${algorithm} (${variant})` : algorithm);

/** The loads that can be compared, as they are read in a table. */
export const LOAD_WORDS = {'solo-random': 'one request at a time', all: 'all want to enter', random: 'requests at random times'};

/** What is drawn at first: one or two well-known algorithms of each family. With all of them the names would stack. */
const FIRST = ['lamport', 'ricart-agrawala', 'maekawa', 'raymond', 'suzuki-kasami', 'central'];

/** The names that are hidden at first. */
export function hiddenAtFirst(names) {
  const all = [...names];
  return new Set(all.some((name) => FIRST.includes(name)) ? all.filter((name) => !FIRST.includes(name)) : []);
}

/** The row with the largest n of an algorithm without a variant under each load that was measured. */
export function largest(rows, name) {
  return Object.keys(LOAD_WORDS).map((load) => rows
    .filter((row) => nameOf(row) === name && row.load === load && !row.refused)
    .reduce((best, row) => (best && best.n >= row.n ? best : row), null)).filter(Boolean);
}

/** A run like the measured one, short enough to be watched. */
export function specOf({algorithm, variant, n, load}) {
  return {algorithm, n, ...(variant ? {variant} : {}), ...(load === 'all' ? {} : {load}), entries: Math.max(10, 2 * n)};
}

/** What the costs of the table are, from the rows that are there. */
export function costsInWords(rows) {
  const measured = rows.filter(({refused}) => !refused);
  if (measured.length === 0) return 'The costs are being measured.';
  const loads = Object.entries(LOAD_WORDS).filter(([load]) => measured.some((row) => row.load === load)).map(([, words]) => words);
  return `Costs at n = ${Math.max(...measured.map(({n}) => n))}, or the largest n that the algorithm allows: ${loads.join(' · ')}. Below each number is its formula: E is the time inside, S the synchronization delay.`;
}

/** One series for each algorithm: measured points, and the values of the formula at the same n. */
export function series(rows, measure, load) {
  const {measured, expected} = MEASURES[measure];
  const found = new Map();
  for (const row of rows) {
    const value = measured(row);
    if (row.load !== load || row.refused || value === null || value === undefined) continue;
    const name = nameOf(row);
    if (!found.has(name)) found.set(name, {name, algorithm: row.algorithm, points: []});
    const theory = expected(row) ?? null;
    found.get(name).points.push({n: row.n, value, theory, differs: theory ? !agrees(value, theory) : false, row});
  }
  for (const one of found.values()) one.points.sort((a, b) => a.n - b.n);
  return [...found.values()];
}

/** The tolerance of means is the one of the simulator. */
function agrees(value, {kind, value: expected}) {
  const off = Math.abs(value - expected);
  if (kind === 'exact') return off <= 1e-9 * Math.max(1, Math.abs(expected));
  if (kind === 'mean') return off <= 0.06 * Math.abs(expected);
  return true;
}

/** A scale from values to pixels, linear or logarithmic, with round ticks. */
export function scale([low, high], [from, to], isLog = false) {
  const least = isLog ? Math.log10(Math.max(low, 1e-3)) : Math.min(0, low);
  const most = isLog ? Math.log10(Math.max(high, 1e-2)) : high;
  const span = most - least || 1;
  const at = (value) => from + (((isLog ? Math.log10(Math.max(value, 1e-3)) : value) - least) / span) * (to - from);
  return {at, ticks: isLog ? logTicks(least, most) : linearTicks(least, most)};
}

function linearTicks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough - 1e-12);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-6; at += 1) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
    for (const factor of [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) ticks.push(Number(value.toPrecision(12)));
    }
  }
  return ticks;
}

/** Moves labels apart: each keeps at least `room` from the one above, and none leaves the field. Labels are `{y}`. */
export function apart(labels, room, top, bottom) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let last = top - room;
  for (const label of sorted) {
    label.y = Math.max(label.y, last + room);
    last = label.y;
  }
  let next = bottom + room;
  for (const label of sorted.reverse()) {
    label.y = Math.min(label.y, next - room);
    next = label.y;
  }
  return labels;
}

/** A colour for each name, by its place among all names. */
export function colourOf(names) {
  const all = [...new Set(names)];
  // There are fewer colours than names. Variants are hidden at first, so they come last.
  const ranked = [...all].sort((a, b) => a.includes('(') - b.includes('('));
  return new Map(all.map((name) => [name, ranked.indexOf(name) % 12]));
}
