'use strict';
// Asks for /dashboard.json every two seconds and shows it. Whatever the document says is set as
// text, never as markup: URLs and names of sites may be hostile.
(() => {
const EVERY = 2000, SLOWEST_RETRY = 30000, PATIENCE = 10000, KEPT = 150, CELLS = 512, ROWS = 200;
const TOKEN = 'tokamak-admin-token';
const CACHE = ['hit', 'stale', 'coalesced', 'miss', 'bypassed'];
const CALLS = ['sql', 'http'];
const SOON = 14; // Days left of a certificate that should have been renewed.
const COUNTERS = ['tokamak_requests_total', 'tokamak_response_body_bytes_total',
  'tokamak_request_duration_seconds', 'tokamak_request_phase_seconds',
  'tokamak_cache_requests_total', 'tokamak_failures_total', 'tokamak_calls_total',
  'tokamak_request_calls_seconds'];
const LETTERS = { idle: '·', busy: 'B', starting: 's', draining: 'd', leaving: 'x' };
const at = id => document.getElementById(id);
const readings = []; // What the charts and windows need of the last five minutes.
let shown = null, failures = 0, lostSince = null, paused = false, timer = null, asking = false;

// ---- What a document says --------------------------------------------------------------------

const samples = (doc, name) => doc.metrics[name] || [];
const sum = (doc, name, fits = () => true) =>
  samples(doc, name).filter(s => fits(s.labels)).reduce((all, s) => all + s.value, 0);
const added = (one, other) => one.map((count, nth) => count + other[nth]);
const nothing = doc => ({ buckets: doc.bounds.map(() => 0).concat(0), sum: 0 });
const times = (doc, name, fits) => samples(doc, name).filter(s => fits(s.labels)).reduce(
  (all, s) => ({ buckets: added(all.buckets, s.buckets), sum: all.sum + s.sum }), nothing(doc));

// The counters of one site, or of all if it is ''.
function read(doc, site) {
  const fits = labels => !site || labels.site === site;
  const phases = {};
  for (const { name } of doc.phases) {
    phases[name] = times(doc, 'tokamak_request_phase_seconds',
      labels => fits(labels) && labels.phase === name);
  }
  const requests = fits2 => sum(doc, 'tokamak_requests_total', l => fits(l) && fits2(l));
  return {
    requests: requests(() => true), errors: requests(labels => labels.status === '5xx'),
    bytes: sum(doc, 'tokamak_response_body_bytes_total', fits),
    duration: times(doc, 'tokamak_request_duration_seconds', fits), phases,
    cache: Object.fromEntries(CACHE.map(result =>
      [result, sum(doc, 'tokamak_cache_requests_total', labels => labels.result === result)])),
    failures: Object.fromEntries(samples(doc, 'tokamak_failures_total').map(s =>
      [s.labels.kind, s.value])),
    calls: Object.fromEntries(CALLS.map(kind => {
      const own = labels => fits(labels) && labels.kind === kind;
      return [kind, { calls: sum(doc, 'tokamak_calls_total', own),
        times: times(doc, 'tokamak_request_calls_seconds', own) }];
    })),
  };
}

const without = (late, early) => ({
  buckets: late.buckets.map((count, nth) => count - early.buckets[nth]), sum: late.sum - early.sum,
});
const each = (late, early, take) =>
  Object.fromEntries(Object.keys(late).map(name => [name, take(late[name], early[name])]));
const minus = (late, early = 0) => late - early;

// What was counted between two readings; since the start if there is no earlier one.
function between(late, early) {
  if (!early) return late;
  return {
    requests: late.requests - early.requests, errors: late.errors - early.errors,
    bytes: late.bytes - early.bytes, duration: without(late.duration, early.duration),
    phases: each(late.phases, early.phases, without),
    cache: each(late.cache, early.cache, minus),
    failures: each(late.failures, early.failures, minus),
    calls: each(late.calls, early.calls, (one, other) =>
      ({ calls: one.calls - other.calls, times: without(one.times, other.times) })),
  };
}

const count = counted => counted.buckets.reduce((all, one) => all + one, 0);

// As histogram_quantile of Prometheus: linear between the bounds of the bucket it falls into.
function quantile(q, { buckets }, bounds) {
  const total = count({ buckets });
  if (!total) return null;
  let below = 0;
  for (let nth = 0; nth < bounds.length; nth++) {
    if (below + buckets[nth] >= q * total && buckets[nth]) {
      const low = nth ? bounds[nth - 1] : 0;
      return low + (bounds[nth] - low) * (q * total - below) / buckets[nth];
    }
    below += buckets[nth];
  }
  return bounds[bounds.length - 1];
}

// ---- Text --------------------------------------------------------------------------------------

const number = (value, digits = 0) =>
  value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: 0 });
const few = value => number(value, value < 10 ? 2 : value < 100 ? 1 : 0);
function time(seconds) {
  if (seconds === null || !isFinite(seconds)) return '–';
  if (seconds < 0.001) return few(seconds * 1e6) + ' µs';
  return seconds < 1 ? few(seconds * 1e3) + ' ms' : few(seconds) + ' s';
}
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let nth = 0;
  for (; value >= 1024 && nth < 4; nth++) value /= 1024;
  return few(value) + ' ' + units[nth];
}
const share = (part, whole) => whole > 0 ? number(100 * part / whole, 1) + ' %' : '–';
function age(seconds) {
  const [unit, word] = seconds < 60 ? [1, 's'] : seconds < 3600 ? [60, 'min']
    : seconds < 86400 ? [3600, 'h'] : [86400, 'd'];
  return Math.floor(seconds / unit) + ' ' + word;
}

// ---- Elements ----------------------------------------------------------------------------------

// Changes text only where it differs, so that a selection and a reader's place stay.
function say(element, text) {
  text = String(text);
  if (element.textContent !== text) element.textContent = text;
}
function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
// As many children as there are items.
function children(parent, items, begin, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(begin());
  items.forEach((item, nth) => fill(parent.children[nth], item, nth));
}

// A table in the place with this id. A column is a name and, for numbers, 'number'; a cell is a
// text, or a text and a class. The first cell of a row is its head.
function table(id, columns, rows, empty = 'none') {
  const place = at(id);
  if (!place.firstChild) {
    place.tabIndex = 0;
    place.setAttribute('role', 'region');
    place.setAttribute('aria-label', place.dataset.caption);
    const whole = make('table'), head = make('tr');
    for (const [name, kind] of columns) {
      const cell = make('th', kind, name);
      cell.scope = 'col';
      head.append(cell);
    }
    const top = make('thead');
    top.append(head);
    // Where a small screen shows a row in several lines, it stays a row for screen readers.
    for (const [element, role] of [[whole, 'table'], [top, 'rowgroup'], [head, 'row']]) {
      element.setAttribute('role', role);
    }
    whole.append(make('caption', '', place.dataset.caption), top, make('tbody'));
    place.append(whole);
  }
  const filled = rows.length ? rows : [[empty, ...columns.slice(1).map(() => '')]];
  children(place.querySelector('tbody'), filled, () => {
    const row = make('tr');
    row.setAttribute('role', 'row');
    columns.forEach(([name, kind], nth) => {
      const cell = make(nth ? 'td' : 'th', kind);
      cell.setAttribute('role', nth ? 'cell' : 'rowheader');
      cell.dataset.name = name;
      if (!nth) cell.scope = 'row';
      row.append(cell);
    });
    return row;
  }, (row, cells) => cells.forEach((cell, nth) => {
    const [text, kind, layer] = Array.isArray(cell) ? cell : [cell];
    const element = row.children[nth];
    element.className = [columns[nth][1], kind].filter(Boolean).join(' ');
    if (layer === undefined) return say(element, text);
    if (element.textContent === text) return;
    element.textContent = '';
    const swatch = make('i', 'swatch');
    swatch.style.background = `var(--p${layer})`;
    element.append(swatch, text);
  }));
}

function shape(svg, name, className) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  if (className) element.setAttribute('class', className);
  svg.append(element);
  return element;
}

const WIDE = 600, HIGH = 160;
// Seconds that the charts show: what there is, from one minute to five.
const span = () => Math.max(60, Math.min(300, readings[readings.length - 1].at - readings[0].at));
const across = (reading, now) => WIDE * (1 - (now - reading.at) / span());

// Pairs of neighbouring readings of one process, with what was counted between them.
function steps() {
  return readings.slice(1).map((late, nth) => ({ late, early: readings[nth] }))
    .filter(({ late, early }) => late.began === early.began && late.at > early.at)
    .map(({ late, early }) =>
      ({ late, early, seconds: late.at - early.at, counted: between(late.data, early.data) }));
}

function begin(svg) {
  svg.replaceChildren();
  for (const y of [1, HIGH / 2, HIGH - 1]) {
    const line = shape(svg, 'path', 'axis');
    line.setAttribute('d', `M0 ${y}H${WIDE}`);
  }
  const middle = shape(svg, 'path', 'axis');
  middle.setAttribute('d', `M${WIDE / 2} 0V${HIGH}`);
  // The clock at the left end, in the middle and at the right end.
  const end = readings[readings.length - 1].clock;
  const texts = [span(), span() / 2, 0].map(seconds =>
    new Date(end - seconds * 1000).toLocaleTimeString());
  children(at(`${svg.id}-times`), texts, () => make('span'), say);
}

// Lines over the last five minutes; their values, oldest first, have null where there is none.
function lines(id, now, all, className) {
  const svg = at(id);
  begin(svg);
  const top = Math.max(1e-9, ...all.flatMap(([, points]) => points.map(([, y]) => y || 0)));
  for (const [name, points] of all) {
    let path = '', pen = 'M';
    for (const [reading, y] of points) {
      if (y === null) { pen = 'M'; continue; }
      const high = HIGH - 2 - y / top * (HIGH - 4);
      path += `${pen}${across(reading, now).toFixed(1)} ${high.toFixed(1)}`;
      pen = 'L';
    }
    shape(svg, 'path', `line ${name}`).setAttribute('d', path || 'M0 0');
  }
  return top;
}

// ---- The sections ------------------------------------------------------------------------------

function tiles(doc, site, counted, seconds) {
  const fits = labels => !site || labels.site === site;
  const state = name => sum(doc, 'tokamak_workers', l => fits(l) && l.state === name);
  const p = q => time(quantile(q, counted.duration, doc.bounds));
  const busy = state('busy'), queue = sum(doc, 'tokamak_queue_length', fits);
  const limit = sum(doc, 'tokamak_workers_limit', fits);
  const all = [
    ['Requests a second', seconds ? few(counted.requests / seconds) : '–'],
    ['Half are faster than', p(0.5)], ['90 % are faster than', p(0.9)],
    ['99 % are faster than', p(0.99)],
    ['Answers 5xx', share(counted.errors, counted.requests), counted.errors > 0],
    ['Sent a second', seconds ? bytes(counted.bytes / seconds) : '–'],
    ['Workers busy', doc.status ? `${busy} of ${limit}` : '–'],
    // One for each worker waits no longer than one request takes.
    ['Requests waiting', doc.status ? number(queue) : '–', queue > limit],
    ['Connections', number(sum(doc, 'tokamak_connections'))],
    ['Event loops serving', number(sum(doc, 'tokamak_event_loops', l => l.state === 'serving'))],
  ];
  children(at('tiles'), all, () => {
    const tile = make('div');
    tile.append(make('dt'), make('dd'));
    return tile;
  }, (tile, [name, value, bad]) => {
    tile.className = bad ? 'bad' : '';
    say(tile.children[0], name);
    say(tile.children[1], value);
  });
}

function charts(doc, now) {
  const all = steps(), p = (q, { counted }) => quantile(q, counted.duration, doc.bounds);
  const rates = all.map(step => [step.late, step.counted.requests / step.seconds]);
  const last = all.length ? few(rates[rates.length - 1][1]) : '–';
  let top = lines('rate', now, [['one', rates]]);
  top = all.length ? few(top) + ' a second' : '–';
  label('rate', top, `The last ${age(span())}: up to ${top}, now ${last}.`);
  top = lines('times', now, [
    ['one', all.map(step => [step.late, p(0.5, step)])],
    ['two', all.map(step => [step.late, p(0.99, step)])],
  ]);
  top = all.length ? time(top) : '–';
  label('times', top, `The last ${age(span())}: half of the requests (line) and 99 % (dashes) ` +
    `are faster; the top is ${top}.`);
  stack(doc, now, all);
}

// Mean time of each phase a request, one column for each reading.
function stack(doc, now, all) {
  const svg = at('stack');
  begin(svg);
  const columns = all.filter(step => step.counted.requests > 0);
  const mean = (step, phase) => step.counted.phases[phase].sum / step.counted.requests;
  const heights = columns.map(step =>
    doc.phases.reduce((whole, { name }) => whole + mean(step, name), 0));
  const top = Math.max(1e-9, ...heights);
  const floors = columns.map(() => 0);
  doc.phases.forEach(({ name }, layer) => {
    let path = '';
    columns.forEach((step, nth) => {
      const from = floors[nth], to = floors[nth] += mean(step, name) / top * (HIGH - 2);
      if (to - from < 0.05) return;
      const left = across(step.early, now), right = across(step.late, now);
      path += `M${left.toFixed(1)} ${(HIGH - from).toFixed(1)}H${right.toFixed(1)}` +
        `V${(HIGH - to).toFixed(1)}H${left.toFixed(1)}Z`;
    });
    if (!path) return;
    const element = shape(svg, 'path', 'layer');
    element.setAttribute('d', path);
    element.style.fill = `var(--p${layer})`;
  });
  const text = columns.length ? time(top) : '–';
  label('stack', text, `The last ${age(span())}: mean time of a request, its phases on top ` +
    `of each other; the top is ${text}.`);
}

function label(id, top, text) {
  say(at(`${id}-top`), top);
  say(at(`${id}-text`), text);
  at(id).setAttribute('aria-label', text);
}

function phases(doc, counted) {
  const spent = name => counted.phases[name].sum;
  const whole = doc.phases.reduce((all, { name }) => all + spent(name), 0);
  const there = doc.phases.map((phase, layer) => ({ ...phase, layer }))
    .filter(({ name }) => spent(name) > 0);
  const bar = at('bar');
  bar.hidden = !there.length;
  children(bar, there, () => {
    const part = make('span');
    part.append(make('b'));
    return part;
  }, (part, { name, layer }) => {
    part.style.flexGrow = spent(name) / whole;
    part.style.background = `var(--p${layer})`;
    say(part.firstChild, spent(name) / whole > 0.1 ? name : '');
  });
  bar.setAttribute('aria-label', 'Shares of the time: ' +
    there.map(({ name }) => `${name} ${share(spent(name), whole)}`).join(', '));
  table('phases', [['Phase'], ['Share', 'number'], ['Mean', 'number'], ['90 % below', 'number'],
    ['Requests', 'number'], ['What it is', 'long']], there.map(({ name, layer, meaning }) => {
    const own = counted.phases[name];
    return [[name, '', layer], share(own.sum, whole), time(own.sum / count(own)),
      time(quantile(0.9, own, doc.bounds)), number(count(own)), meaning];
  }), 'no request');
}

function workers(doc, site) {
  const pools = (doc.status ? doc.status.pools : []).filter(pool => !site || pool.site === site);
  children(at('boards'), pools, () => {
    const board = make('div', 'board');
    board.setAttribute('role', 'img');
    return board;
  }, (board, pool) => {
    const states = Object.keys(LETTERS).filter(state => pool[state]);
    board.setAttribute('aria-label', `${pool.site}: ` +
      (states.map(state => `${pool[state]} ${state}`).join(', ') || 'no worker'));
    const cells = [null, ...pool.workers.slice(0, CELLS)];
    children(board, cells, () => make('b'), (cell, worker) => {
      cell.className = worker ? `cell ${worker.state}` : '';
      say(cell, worker ? LETTERS[worker.state] || '?' : pool.site);
      cell.title = worker ? `${worker.pid} ${worker.state}` : '';
    });
  });
  const endings = name => samples(doc, 'tokamak_worker_endings_total')
    .filter(s => s.labels.site === name && s.value > 0)
    .map(s => `${s.labels.reason} ${number(s.value)}`).join(', ');
  table('pools', [['Site'], ['Mode'], ['Most', 'number'], ['Idle', 'number'], ['Busy', 'number'],
    ['Waiting', 'number'], ['Requests', 'number'], ['Memory', 'number'],
    ['Ended workers, failures', 'long']],
  pools.map(pool => [pool.site, pool.mode, number(pool.max), number(pool.idle), number(pool.busy),
    [number(pool.queue), pool.queue > pool.max ? 'bad' : ''], number(pool.requests),
    bytes(pool.workers.reduce((all, worker) => all + worker.memory, 0)),
    pool.failure ? [pool.failure, 'bad'] : endings(pool.site)]),
  doc.status ? 'no PHP site' : 'the supervisor does not answer');
  const each = pools.flatMap(pool => pool.workers.map(worker => ({ pool, worker })));
  each.sort((a, b) => (b.worker.state === 'busy') - (a.worker.state === 'busy'));
  table('workers', [['Process', 'number'], ['Site'], ['State'], ['For', 'number'],
    ['Requests', 'number'], ['Memory', 'number'], ['Request, the last if idle', 'long']],
  each.slice(0, ROWS).map(({ pool, worker }) => [worker.pid, pool.site, worker.state,
    age(worker.seconds), number(worker.requests), bytes(worker.memory),
    `${worker.method} ${worker.uri}`.trim()]));
  const sealed = pools.filter(pool => pool.mode === 'sealed');
  at('s-sealed').hidden = !sealed.length;
  table('sealed', [['Site'], ['Roll-backs', 'number'], ['Time of one', 'number'],
    ['Hot pages of one', 'number'], ['Hot memory', 'number'], ['Image', 'number'],
    ['Renewed', 'number']], sealed.map(pool => {
    const own = labels => labels.site === pool.site;
    const spent = times(doc, 'tokamak_roll_back_seconds', own);
    const hot = times(doc, 'tokamak_roll_back_pages', own);
    const pages = count(hot) ? hot.sum / count(hot) : null;
    return [pool.site, number(count(spent)), time(count(spent) ? spent.sum / count(spent) : null),
      pages === null ? '–' : few(pages), pages === null ? '–' : bytes(pages * 4096),
      bytes(sum(doc, 'tokamak_image_bytes', labels => own(labels) && labels.memory === 'private')),
      number(pool.renewals)];
  }));
}

// Rows of single requests.
function requests(id, all, site, empty) {
  table(id, [['URL', 'long'], ['Time', 'number'], ['Most of it'], ['Status', 'number'],
    ['Ago', 'number'], ['Site']],
  all.filter(one => !site || one.site === site).map(one => [one.path, time(one.seconds),
    one.phase, [one.status || 'none', one.status >= 500 ? 'bad' : ''], age(one.ago), one.site]),
  empty);
}

function slowest(doc, site) {
  const { urls, window, floor } = doc.slowest;
  say(at('slow-text'), `Of the last ${age(window)}, those of more than ${time(floor)}; without ` +
    'their queries.');
  requests('slowest', urls, site);
  requests('errors', doc.errors, site);
}

function calls(doc, site, counted) {
  at('s-calls').hidden = !samples(doc, 'tokamak_calls_total')
    .some(({ labels }) => !site || labels.site === site);
  table('calls', [['Kind'], ['Calls', 'number'], ['Requests that call', 'number'],
    ['Calls of one', 'number'], ['Time of one', 'number'], ['90 % below', 'number']],
  CALLS.map(kind => {
    const { calls, times } = counted.calls[kind], requests = count(times);
    return [kind, number(calls), number(requests), requests ? few(calls / requests) : '–',
      time(requests ? times.sum / requests : null), time(quantile(0.9, times, doc.bounds))];
  }));
}

function certificates(doc) {
  const all = samples(doc, 'tokamak_tls_certificate_end_seconds').sort((a, b) => a.value - b.value);
  at('s-certificates').hidden = !all.length;
  table('certificates', [['First name', 'long'], ['Ends on'], ['Days left', 'number']],
    all.map(({ labels, value }) => {
      const days = Math.floor((value * 1000 - Date.now()) / 86400e3);
      const day = new Date(value * 1000).toISOString().slice(0, 10);
      return [labels.name, day, [number(days), days < SOON ? 'bad' : '']];
    }));
}

function others(doc, counted) {
  const limit = sum(doc, 'tokamak_cache_limit_bytes');
  at('s-cache').hidden = !limit;
  const used = sum(doc, 'tokamak_cache_bytes'), meter = at('cache-meter');
  meter.max = limit || 1;
  meter.value = used;
  say(at('cache-text'), `${bytes(used)} of ${bytes(limit)}, ` +
    `${number(sum(doc, 'tokamak_cache_entries'))} URLs`);
  const asked = Object.values(counted.cache).reduce((all, one) => all + one, 0);
  table('cache', [['Result'], ['Requests', 'number'], ['Share', 'number']], CACHE.map(result =>
    [result, number(counted.cache[result]), share(counted.cache[result], asked)]));
  const failed = samples(doc, 'tokamak_failures_total')
    .map(({ labels }) => [labels.kind, labels.side, counted.failures[labels.kind] || 0])
    .filter(([, , times]) => times > 0).sort((a, b) => b[2] - a[2]);
  table('failures', [['Kind'], ['Caused by'], ['Times', 'number']],
    failed.map(([kind, side, times]) => [kind, side, number(times)]),
    counted.errors > 0 ? 'none of the server: the application answered with 5xx' : 'none');
  const addresses = samples(doc, 'tokamak_upstream_up');
  at('s-upstreams').hidden = !addresses.length;
  table('upstreams', [['Upstream'], ['Address', 'long'], ['State'], ['Requests', 'number'],
    ['Failures', 'number'], ['In use', 'number'], ['Idle', 'number'], ['Waiting', 'number']],
  addresses.map(({ labels, value }) => {
    const own = (name, state) => sum(doc, `tokamak_upstream_${name}`, l => l.address ===
      labels.address && l.upstream === labels.upstream && (!state || l.state === state));
    return [labels.upstream, labels.address, value ? 'up' : ['down', 'bad'],
      number(own('requests_total')), number(own('failures_total')),
      number(own('connections', 'in_use')), number(own('connections', 'idle')),
      number(own('waiting'))];
  }));
}

function command(site) {
  const quoted = text => /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const prefix = at('prefix').value;
  say(at('command'), `tokamak profile${site ? ' --site ' + quoted(site) : ''}` +
    `${prefix ? ' --url ' + quoted(prefix) : ''} --for ${at('length').value}s`);
}

function show() {
  const doc = shown;
  if (!doc) return;
  const site = at('site').value, now = readings[readings.length - 1];
  const wanted = Number(at('window').value);
  // The oldest reading of this front in the window.
  const early = wanted ? readings.find(one => one.began === now.began && one.at > now.at - wanted
    - EVERY / 2000) : null;
  const is_first = wanted && early === now;
  const counted = between(now.data, is_first ? null : early && early.data);
  const uptime = sum(doc, 'tokamak_uptime_seconds');
  const seconds = is_first ? 0 : early ? now.at - early.at : doc.seconds;
  tiles(doc, site, counted, seconds);
  charts(doc, now.at);
  phases(doc, counted);
  workers(doc, site);
  slowest(doc, site);
  calls(doc, site, counted);
  others(doc, counted);
  certificates(doc);
  command(site);
  const generation = sum(doc, 'tokamak_generation');
  const known = doc.status ? `, generation ${generation}, up ${age(uptime)}` : '';
  say(at('version'), doc.version + known);
  note(doc);
}

function note(doc) {
  const lost = doc.status ? losses(doc.status) : '';
  at('note').hidden = doc.status && !lost;
  say(at('note'), doc.status ? `Log lines were lost, since a disk or a reader was too slow: ${lost}.`
    : 'The supervisor does not answer: what workers do is not known.');
}

function losses({ lost_lines: { access, error }, pools }) {
  const all = [['access logs', access], ['error log', error]];
  pools.forEach(pool => all.push([`error log, of ${pool.site}'s PHP`, pool.lost_lines]));
  return all.filter(([, count]) => count).map(([log, count]) => `${number(count)} (${log})`)
    .join(', ');
}

// ---- A profile ---------------------------------------------------------------------------------

let profiling = null; // Ends the one that is being taken.

async function profile() {
  if (profiling) return profiling.abort();
  const [seconds, site, prefix] = ['length', 'site', 'prefix'].map(id => at(id).value);
  const query = new URLSearchParams({ seconds, site, url: prefix });
  const whose = `of ${site || 'all sites'}${prefix && `, of paths that begin with ${prefix}`}`;
  const began = performance.now(), bar = at('profiling');
  const step = () => { bar.value = Math.min(seconds, (performance.now() - began) / 1000); };
  const clock = setInterval(step, 250);
  profiling = new AbortController();
  say(at('profile'), 'End it');
  say(at('profiled'), `A profile ${whose} is being taken, for ${seconds} s.`);
  [bar.max, bar.value, bar.hidden, at('result').hidden] = [seconds, 0, false, true];
  try {
    const response = await authorized(`/profile?${query}`, profiling.signal);
    if (!response.ok) throw new Error((await response.text()).trim());
    const old = at('graph').href, page = URL.createObjectURL(await response.blob());
    if (old) URL.revokeObjectURL(old);
    at('graph').href = at('save').href = page;
    say(at('profiled'), `The profile ${whose} is there: ` +
      `${response.headers.get('tokamak-profile')}.`);
    at('result').hidden = false;
  } catch (error) {
    say(at('profiled'), profiling.signal.aborted ? 'The profile was ended.'
      : `No profile: ${error.message}`);
  } finally {
    clearInterval(clock);
    profiling = null;
    bar.hidden = true;
    say(at('profile'), 'Take a profile');
  }
}

// ---- Asking ------------------------------------------------------------------------------------

function sites(doc) {
  const names = [...new Set(samples(doc, 'tokamak_requests_total').map(s => s.labels.site))];
  const select = at('site'), known = [...select.options].slice(1).map(option => option.value);
  if (names.join('\n') === known.join('\n')) return;
  const chosen = select.value;
  [...select.options].slice(1).forEach(option => option.remove());
  names.forEach(name => select.append(new Option(name, name)));
  select.value = names.includes(chosen) ? chosen : '';
}

function state(text, className) {
  const element = at('state');
  element.className = className;
  say(element, text);
}

function login(wrong) {
  clearTimeout(timer);
  shown = null;
  sessionStorage.removeItem(TOKEN);
  at('main').hidden = at('controls').hidden = true;
  at('login').hidden = false;
  say(at('wrong'), wrong);
  state('A token is needed', 'still');
  at('token').focus();
}

// The token goes in a header: not into the address, and into no cookie.
function authorized(path, signal) {
  const token = sessionStorage.getItem(TOKEN);
  return fetch(path, {
    headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: 'no-store',
    credentials: 'omit', redirect: 'error', signal,
  });
}

async function ask() {
  clearTimeout(timer);
  if (asking || paused || document.hidden) return;
  asking = true;
  const token = sessionStorage.getItem(TOKEN);
  try {
    const response = await authorized('/dashboard.json', AbortSignal.timeout(PATIENCE));
    if (sessionStorage.getItem(TOKEN) !== token) {
      // Typed anew: its form could not ask while this answer was under way.
      if (at('login').hidden) timer = setTimeout(ask);
      return;
    }
    if (response.status === 401) {
      return login(token ? 'This is not the token of this server.' : '');
    }
    if (!response.ok) throw new Error(`${response.status}: ${(await response.text()).trim()}`);
    take(await response.json());
    at('forget').hidden = !token;
  } catch (error) {
    lost(error);
  } finally {
    asking = false;
  }
  // Pauses grow twofold while the server is not reachable.
  if (at('login').hidden) timer = setTimeout(ask, Math.min(EVERY * 2 ** failures, SLOWEST_RETRY));
}

function take(doc) {
  shown = doc;
  sites(doc);
  // Of old documents only the counters are kept, in case that another site is chosen.
  const metrics = Object.fromEntries(COUNTERS.map(name => [name, samples(doc, name)]));
  const old = { bounds: doc.bounds, phases: doc.phases, metrics };
  const data = read(old, at('site').value);
  readings.push({ at: doc.at, clock: Date.now(), began: doc.began, old, data });
  if (readings.length > KEPT + 1) readings.shift();
  [failures, lostSince] = [0, null];
  at('main').hidden = at('controls').hidden = false;
  at('login').hidden = true;
  show();
  if (!paused) state('Live: new figures every 2 s', '');
}

function lost(error) {
  failures += 1;
  lostSince = lostSince || new Date();
  const reason = /^\d/.test(error.message) ? ` (${error.message})` : '';
  const old = shown ? '; the figures below are old' : '';
  state(`Not reachable since ${lostSince.toLocaleTimeString()}${reason}${old}`, 'lost');
}

at('login').addEventListener('submit', event => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at('token').value);
  at('token').value = '';
  at('login').hidden = true;
  ask();
});
at('forget').addEventListener('click', () => login(''));
at('pause').addEventListener('click', () => {
  paused = !paused;
  at('pause').setAttribute('aria-pressed', String(paused));
  if (paused) state('Paused', 'still');
  else {
    state('Live: new figures every 2 s', '');
    ask();
  }
});
at('site').addEventListener('change', () => {
  readings.forEach(one => { one.data = read(one.old, at('site').value); });
  show();
});
at('window').addEventListener('change', show);
at('length').addEventListener('change', show);
at('prefix').addEventListener('input', show);
at('profile').addEventListener('click', profile);
at('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(at('command').textContent);
    say(at('copied'), 'Copied.');
  } catch {
    getSelection().selectAllChildren(at('command'));
    say(at('copied'), 'Selected: copy it with the keyboard.');
  }
});
document.addEventListener('visibilitychange', ask);
ask();
})();
