// What the page needs to know about one action, in the form in which the server reads and writes it:
// {"deliver": {"message": 3}}, {"user": {"process": 0, "wish": "request"}}, ...

/** The name of an action and its fields. An append is the one wish that carries a value. */
export function parts(action) {
  const [name, fields] = Object.entries(action)[0];
  return {name, fields};
}

/** The same text for the same action, whatever the order of its fields. */
export function key(action) {
  const {name, fields} = parts(action);
  const sorted = Object.keys(fields)
    .sort()
    .map((field) => `${field}=${JSON.stringify(fields[field])}`);
  return `${name} ${sorted.join(' ')}`;
}

export function same(one, other) {
  return key(one) === key(other);
}

export const deliver = (message) => ({deliver: {message}});
export const drop = (message) => ({drop: {message}});
export const duplicate = (message) => ({duplicate: {message}});

/** The words of a transcript: `deliver #3`, `request 0`. Used where the server has not yet given its own text. */
export function words(action) {
  const {name, fields} = parts(action);
  switch (name) {
    case 'user':
      return typeof fields.wish === 'object' ? `append ${fields.process} ${fields.wish.append}` : `${fields.wish} ${fields.process}`;
    case 'deliver':
    case 'drop':
    case 'duplicate':
      return `${name} #${fields.message}`;
    case 'forge':
      return `forge ${fields.from}->${fields.to} #${fields.like}`;
    case 'timer':
      return `timer ${fields.process} ${fields.name}`;
    case 'suspect':
    case 'trust':
      return `${name} ${fields.by} ${fields.of}`;
    case 'recover':
      return fields.memory ? `recover ${fields.process}` : `recover ${fields.process} without-memory`;
    case 'app':
      return `app ${fields.from}->${fields.to}`;
    case 'choose':
      return `choose ${fields.script.join(' ')}`;
    default:
      return `${name} ${fields.process}`;
  }
}

/**
 * The process in which the action happens, or null if it happens on the network. A paused process does nothing, so no
 * such action is offered for it. `pending` gives the receiver of a message.
 */
export function actor(action, pending) {
  const {name, fields} = parts(action);
  switch (name) {
    case 'deliver':
      return pending.find((message) => message.id === fields.message)?.to ?? null;
    case 'suspect':
    case 'trust':
      return fields.by;
    case 'app':
      return fields.from;
    case 'user':
    case 'timer':
      return fields.process;
    default:
      return null;
  }
}

/** Reports that tell the truth: a detector has not yet reported a crash, or has not yet taken back a suspicion of a live process. */
export function dueReports(actions, processes) {
  const isUp = new Map(processes.map(({id, up}) => [id, up]));
  return actions.filter((action) => {
    const {name, fields} = parts(action);
    return (name === 'suspect' && !isUp.get(fields.of)) || (name === 'trust' && isUp.get(fields.of));
  });
}
