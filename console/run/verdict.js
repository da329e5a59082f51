// What a report says, as data: the headline, the promises, the costs. Pure functions.

import {list} from '../lib/format.js';

const PROPERTIES = ['safety', 'liveness', 'order', 'fence'];

/** The properties with their verdicts, and one sentence about all of them. */
export function promises(report, promised) {
  const {detail = {}, ...verdicts} = report.properties ?? {};
  const names = [...PROPERTIES.filter((name) => name in verdicts), ...Object.keys(verdicts).filter((name) => !PROPERTIES.includes(name))];
  const rows = names.map((property) => ({property, promised: promised.includes(property), verdict: verdictOf(verdicts[property]), detail: detail[property] ?? verdicts[property]?.detail}));
  if (report.store) rows.push({property: 'data', promised: false, verdict: verdictOf(report.store.data), detail: report.store.data?.detail ?? storeInWords(report.store)});
  return {rows, headline: headlineOf(rows, report)};
}

const verdictOf = (value) => (typeof value === 'string' ? value : value?.verdict ?? 'unchecked');
const storeInWords = ({writes, refused, lost}) => `${writes} writes, ${refused} refused, ${lost} lost`;

/** The verdicts of the judge of traces, one row for each property of each resource, and one sentence about all. */
export function judged({resources = []}) {
  const rows = resources.flatMap(({resource, properties}) => properties.map((found) => ({...found, resource, promised: found.counts})));
  const broken = rows.filter(({verdict, counts}) => verdict === 'violated' && counts);
  const names = [...new Set(broken.map(({property}) => property))];
  const headline = broken.length > 0
    ? {tone: 'bad', text: `${capital(list(names))} ${names.length > 1 ? 'are' : 'is'} violated`, detail: broken[0].detail}
    : unbroken(rows);
  return {rows, headline};
}

/** Nothing that counts is violated. A trace that was cut off says nothing about what would have come. */
function unbroken(rows) {
  const open = rows.filter(({verdict, counts}) => verdict === 'unchecked' && counts);
  if (open.length === 0) return {tone: 'good', text: 'All that counts held', detail: null};
  const tail = ', but the trace has no end';
  const why = open.some(({detail}) => detail?.endsWith(tail)) ? ': the trace has no end' : '';
  return {tone: 'open', text: `Nothing is violated; ${list([...new Set(open.map(({property}) => property))])} cannot be judged${why}`, detail: open[0].detail?.replace(tail, '') ?? null};
}

function headlineOf(rows, report) {
  const violated = rows.filter(({verdict}) => verdict === 'violated');
  const broken = violated.filter(({promised}) => promised);
  const details = (broken.length > 0 ? broken : violated).map(({detail}) => detail).filter(Boolean);
  if (broken.length > 0) return {tone: 'bad', text: `${capital(list(broken.map(({property}) => property)))} ${broken.length > 1 ? 'are' : 'is'} violated`, detail: details[0]};
  if (violated.length > 0) {
    return {tone: 'warn', text: `${capital(list(violated.map(({property}) => property)))} ${violated.length > 1 ? 'are' : 'is'} violated, and not promised`, detail: details[0]};
  }
  const leader = report.leader !== undefined && report.leader !== null ? `P${report.leader} leads` : null;
  return {tone: 'good', text: 'All promises held', detail: leader};
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The costs that were measured, each with its theory if there is one. */
export function costs(report, theory = {}) {
  const expected = theory ?? {};
  const rows = [];
  const add = (name, key, value, unit, note, itsTheory = expected[key]) => {
    const spread = itsTheory?.kind === 'mean' ? report.spread : undefined;
    if (value !== undefined && value !== null) rows.push({name, value, unit, note, theory: spread ? {...itsTheory, spread} : itsTheory});
  };
  const delay = (name, key) => {
    const summary = report[key];
    add(name, key, summary?.mean, 'T', 'mean');
    if (summary && summary.max !== summary.mean) add(`${name}, longest`, `${key}_max`, summary.max, 'T');
  };
  add('messages per entry', 'messages_per_entry', report.messages_per_entry);
  add('messages per append', 'messages_per_append', report.messages_per_append);
  add('multicasts per entry', 'multicasts_per_entry', report.multicasts_per_entry);
  add('bytes per entry', 'bytes_per_entry', report.bytes_per_entry);
  delay('client delay', 'client_delay');
  delay('sync delay', 'sync_delay');
  delay('detection time', 'detection_time');
  add('mistakes', 'mistakes', report.mistakes);
  delay('mistake time', 'mistake_time');
  add('bypass, mean', 'bypass', report.bypass?.mean);
  add('entries', 'entries', report.entries);
  add('appends', 'appends', report.appends);
  add('messages', 'messages', report.messages);
  add('time', 'time', report.time, 'T');
  add('rivals', 'rivals', report.rivals || undefined, 'T');
  return rows;
}

/** How far a measured mean may differ from the theoretical one: the tolerance of the simulator. */
const TOLERANCE = 0.06;

/** Whether a measured value agrees with theory: `{word, tone, why}`, or null if there is none to compare with. */
export function agreement(value, theory) {
  if (!theory || typeof value !== 'number') return null;
  const near = (share) => Math.abs(value - theory.value) <= share * Math.max(1, Math.abs(theory.value));
  if (theory.kind === 'exact') return near(1e-9) ? agrees('equal to the formula') : differs('the formula holds for long runs at constant delay without faults');
  if (theory.kind === 'mean') {
    const percent = Math.round(100 * (theory.spread?.differs ?? TOLERANCE));
    const more = theory.spread ? `; a mean over so few values may differ so much, and ${theory.spread.entries_enough} entries bring it nearer` : '';
    return near(theory.spread?.differs ?? TOLERANCE) ? agrees(`within ${percent} % of the mean${more}`) : differs(`more than ${percent} % from the mean`);
  }
  return value <= theory.value + 1e-9 ? {word: 'within', tone: 'good', why: 'not beyond the bound'} : differs('beyond the bound');
}

const agrees = (why) => ({word: 'agrees', tone: 'good', why});
const differs = (why) => ({word: 'differs', tone: '', why});
