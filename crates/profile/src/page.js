'use strict';
// Places the frames of the tree, which stand in it each before the calls that it makes.
const tree = document.getElementById('tree');
const said = document.getElementById('said');
const detail = document.getElementById('detail');
const controls = document.forms[0];
const all = [...tree.children].map((element, number) => ({
  element,
  number,
  depth: Number(element.style.getPropertyValue('--d')),
  samples: { wall: Number(element.dataset.w), cpu: Number(element.dataset.c) },
  name: element.textContent,
  // Without namespace or folder.
  short: element.textContent.split(/[\\/]/).at(-1) || element.textContent,
  place: element.dataset.p ?? '',
  below: [],
}));
let clock = controls.clock.value;
let zoomed = all[0];
let current = all[0];

// The same colour for all code of a file, and for no other one on purpose.
function hue(file) {
  let sum = 0;
  for (const letter of file) sum = (sum * 31 + letter.codePointAt(0)) % 9973;
  return sum % 62;
}

function link() {
  const path = [];
  for (const frame of all) {
    path.length = frame.depth;
    frame.caller = path.at(-1);
    frame.caller?.below.push(frame);
    path.push(frame);
    frame.element.setAttribute('role', 'treeitem');
    frame.element.setAttribute('aria-level', frame.depth + 1);
    frame.element.tabIndex = -1;
    frame.element.dataset.n = frame.number;
    if (!frame.element.className) {
      frame.element.style.setProperty('--hue', hue(frame.place.replace(/:\d+$/, '')));
    }
  }
}

function percent(part, whole) {
  return `${(100 * part / Math.max(whole, 1)).toFixed(1)} %`;
}

function share(frame) {
  const [count, whole] = [frame.samples[clock], all[0].samples[clock]];
  const of = clock === 'wall' ? 'wall time' : 'CPU time';
  return `${percent(count, whole)} of the ${of}, ${count} of ${whole} samples`;
}

// In pixels, for the least width of a frame and of a letter.
const [LEAST, LETTER] = [1, 7];

function place(frame, left, width, picture, around) {
  const { element, name, short } = frame;
  element.hidden = width * picture < LEAST;
  element.classList.toggle('above', around);
  if (element.hidden) return;
  element.textContent = name.length * LETTER < width * picture ? name : short;
  element.style.left = `${100 * left}%`;
  element.style.width = `${100 * width}%`;
  element.setAttribute('aria-label', `${frame.name}: ${share(frame)}`);
}

// The calls of the frame that is zoomed to are as wide as their part of it; its callers are as wide
// as the picture.
function draw() {
  const picture = tree.clientWidth;
  // What is hidden even for a moment loses the focus.
  const elsewhere = new Set(all);
  for (let above = zoomed.caller; above; above = above.caller) {
    elsewhere.delete(above);
    place(above, 0, 1, picture, true);
  }
  let deepest = zoomed.depth;
  const next = [[zoomed, 0]];
  const whole = Math.max(zoomed.samples[clock], 1);
  while (next.length) {
    const [frame, left] = next.pop();
    const width = frame === zoomed ? 1 : frame.samples[clock] / whole;
    elsewhere.delete(frame);
    place(frame, left, width, picture, false);
    if (frame.element.hidden) continue;
    deepest = Math.max(deepest, frame.depth);
    let from = left;
    for (const call of frame.below) {
      next.push([call, from]);
      from += call.samples[clock] / whole;
    }
  }
  for (const frame of elsewhere) frame.element.hidden = true;
  tree.style.height = `calc(${deepest + 1} * var(--row))`;
}

function describe(frame) {
  const at = frame.place && ` (${frame.place})`;
  detail.textContent = `${frame.name}${at}: ${share(frame)}`;
}

// The frame that the Tab key leads to.
function choose(frame, moves) {
  current.element.tabIndex = -1;
  current = frame;
  current.element.tabIndex = 0;
  if (moves) current.element.focus();
  describe(frame);
}

function zoom(frame) {
  zoomed = frame;
  draw();
  said.textContent = frame === all[0] ? 'The picture shows all calls.'
    : `The picture shows ${frame.name} and its calls: ${share(frame)}.`;
}

function search() {
  const wanted = controls.search.value.toLowerCase();
  let [count, samples, until] = [0, 0, -1];
  for (const frame of all) {
    const text = `${frame.name} ${frame.place}`.toLowerCase();
    const hit = wanted !== '' && frame.number > 0 && text.includes(wanted);
    frame.element.classList.toggle('hit', hit);
    count += hit;
    // What a call that was found calls is in its samples.
    if (frame.depth <= until) until = -1;
    if (hit && until < 0) [until, samples] = [frame.depth, samples + frame.samples[clock]];
  }
  const part = percent(samples, all[0].samples[clock]);
  said.textContent = wanted === '' ? ''
    : `${count} ${count === 1 ? 'place' : 'places'} found, in ${part} of the samples.`;
}

function shown(frames) {
  return frames.filter((frame) => !frame.element.hidden);
}

function beside(frame, step) {
  const beside = shown(frame.caller?.below ?? [frame]);
  return beside[beside.indexOf(frame) + step];
}

const keys = {
  ArrowDown: (frame) => shown(frame.below)[0],
  ArrowUp: (frame) => frame.caller,
  ArrowRight: (frame) => beside(frame, 1),
  ArrowLeft: (frame) => beside(frame, -1),
  Home: () => all[0],
};

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key in keys) {
    const to = keys[event.key](current);
    if (to) choose(to, true);
  } else if (event.key === 'Enter' || event.key === ' ') {
    zoom(current);
  } else {
    return;
  }
  event.preventDefault();
}

function frameOf(event) {
  return all[event.target.dataset?.n];
}

function whole() {
  controls.search.value = '';
  search();
  zoom(all[0]);
  choose(all[0], false);
}

// Lets each head of the table sort its rows: numbers from the largest, names by the alphabet.
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    const text = (row) => row.cells[column].textContent;
    const [order, compare] = head === heads.at(-1)
      ? ['ascending', (a, b) => text(a).localeCompare(text(b))]
      : ['descending', (a, b) => text(b) - text(a)];
    button.addEventListener('click', () => {
      body.append(...[...body.rows].sort(compare));
      heads.forEach((other) => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', order);
    });
  });
}

function begin() {
  link();
  sortable(document.querySelector('table'));
  tree.classList.add('drawn');
  tree.setAttribute('role', 'tree');
  tree.addEventListener('click', (event) => {
    const frame = frameOf(event);
    if (!frame) return;
    choose(frame, true);
    zoom(frame);
  });
  tree.addEventListener('keydown', pressed);
  tree.addEventListener('focusin', (event) => frameOf(event) && choose(frameOf(event), false));
  tree.addEventListener('pointerover', (event) => frameOf(event) && describe(frameOf(event)));
  controls.search.addEventListener('input', search);
  controls.addEventListener('submit', (event) => {
    event.preventDefault();
    const found = all.find((frame) => frame.element.matches('.hit:not([hidden])'));
    if (found) choose(found, true);
  });
  controls.addEventListener('change', (event) => {
    if (event.target.name !== 'clock') return;
    clock = controls.clock.value;
    draw();
    describe(current);
    search();
  });
  controls.whole.addEventListener('click', whole);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') whole();
    if (event.key === '/' && event.target !== controls.search) {
      event.preventDefault();
      controls.search.focus();
    }
  });
  addEventListener('resize', draw);
  addEventListener('beforeprint', draw);
  controls.hidden = false;
  draw();
  choose(all[0], false);
}

if (all.length) begin();
