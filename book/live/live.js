/* Trains the heads in the reader's browser: the exact population risk of parity_lib, its gradient, Adam,
   and the pictures. Part 1 is the mathematics, part 2 the words, part 3 the pictures, part 4 the page.
   Fills every element of class "live" on its page; needs no other file, asks no host. */
"use strict";
(() => {
const RANGES = {
  n: [6, 40], k: [1, 6], smoothing: [0.001, 1], temperature: [0.01, 100], rate: [1e-6, 10], seed: [0, 2 ** 32 - 1],
};
const COMMITTED = 0.6; // as parity_lib.training: attention every head must give its own bit

// ---------------------------------------------------------------------------------------------------
// 1. The mathematics (parity_lib.risk, sampled, attention, training, in double precision like there)

const GRID = 2 ** 15; // samples of a loss over one period
const LOSSES = {
  squared_hinge: {of: (y, p) => Math.max(0, 1 - y * p) ** 2, accuracy: 1e-4}, // a kink: converges slowly
  sigmoid_hinge: {of: (y, p) => 1 - y / (1 + Math.exp(-p)), accuracy: 1e-9},
};

/* The frozen head, 1 + sum over q of (-1)^q (8q - 4) sigma(s + 1/2 - q); smoothing is b of the smoothed ReLU. */
function zigzag(s, k, smoothing) {
  let total = 1;
  for (let q = 1; q <= k; q++) {
    const z = s + 0.5 - q;
    total += (q % 2 ? -1 : 1) * (8 * q - 4) * (z + Math.sqrt(z * z + smoothing)) / 2;
  }
  return total;
}

/* 1 - erf by the series whose terms are all positive: right to 1e-16 in absolute terms, all that is needed. */
function erfc(x) {
  if (Math.abs(x) > 6) return x > 0 ? 0 : 2;
  let term = x, sum = x;
  for (let i = 1; Math.abs(term) > 1e-17 * Math.abs(sum); i++) sum += term *= 2 * x * x / (2 * i + 1);
  return 1 - 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
}

/* Fast Fourier transform in place; the length is a power of two. */
function fft(re, im) {
  const size = re.length;
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [re[i], re[j], im[i], im[j]] = [re[j], re[i], im[j], im[i]];
  }
  for (let half = 1; half < size; half *= 2) {
    for (let p = 0; p < half; p++) {
      const c = Math.cos(Math.PI * p / half), s = -Math.sin(Math.PI * p / half);
      for (let a = p; a < size; a += 2 * half) {
        const b = a + half, x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x; im[b] = im[a] - y; re[a] += x; im[a] += y;
      }
    }
  }
}

/* Fourier coefficients of the loss A(u) + y D(u) on a period k + 1, u = S - k/2: see risk.fourier_series. */
const known = new Map();
function fourierSeries(loss, k, smoothing) {
  const key = [loss, k, smoothing].join();
  if (known.has(key)) return known.get(key);
  const {of, accuracy} = LOSSES[loss], period = k + 1, width = 1 / 2 / 5.9;
  const re = new Float64Array(GRID), im = new Float64Array(GRID); // A and D travel as one complex function
  for (let i = 0; i < GRID; i++) {
    for (const shift of [-period, 0, period]) {
      const u = (i / GRID - 0.5) * period + shift, step = erfc((Math.abs(u) - period / 2) / width) / 2;
      if (step === 0) continue;
      const p = zigzag(u + k / 2, k, smoothing), plus = of(1, p), minus = of(-1, p);
      re[i] += step * (plus + minus) / 2;
      im[i] += step * (plus - minus) / 2;
    }
  }
  fft(re, im);
  const labelFree = [re[0] / GRID], parity = [0];
  for (let m = 1; m < GRID / 2; m++) {
    const sign = (m % 2 ? -1 : 1) / GRID; // the grid starts at -T/2; twice the coefficient, half of each sum
    labelFree.push(sign * (re[m] + re[GRID - m]));
    const real = sign * (im[m] + im[GRID - m]), imaginary = sign * (re[GRID - m] - re[m]);
    parity.push([real, imaginary, -real, -imaginary][k % 4]); // the real part after times (-i)^k
  }
  let count = GRID / 2 - 1, tail = 0;
  while (count > 32 && tail + Math.abs(labelFree[count]) + Math.abs(parity[count]) <= accuracy) {
    tail += Math.abs(labelFree[count]) + Math.abs(parity[count]);
    count--;
  }
  known.set(key, {period, frequencies: count, labelFree, parity});
  return known.get(key);
}

/* Adds weight * prod f to a sum, and its gradient, when factor j has the derivative slope[j]. No division,
   so a factor may be zero. Returns weight * prod f. */
function product(weight, factor, slope, gradient, left) {
  const n = factor.length;
  for (let j = 0, p = 1; j < n; j++) { left[j] = p; p *= factor[j]; }
  for (let j = n - 1; j >= 0; j--) { gradient[j] += weight * left[j] * slope[j]; weight *= factor[j]; }
  return weight;
}

/* The two sums of the exact risk at position weights c, and their gradients: the label-free part (which never
   sees B) and the parity signal. */
function zigzagRisk(weights, member, loss, k, smoothing) {
  const {period, frequencies, labelFree, parity} = fourierSeries(loss, k, smoothing), n = weights.length;
  const make = () => new Float64Array(n);
  const c1 = make(), s1 = make(), c = make().fill(1), s = make(), left = make();
  const factor = make(), slope = make(), down = make();
  const parts = [{value: labelFree[0], gradient: make()}, {value: 0, gradient: make()}];
  for (let j = 0; j < n; j++) {
    c1[j] = Math.cos(Math.PI / period * weights[j]);
    s1[j] = Math.sin(Math.PI / period * weights[j]);
  }
  for (let m = 1; m <= frequencies; m++) {
    const h = m * Math.PI / period;
    for (let j = 0; j < n; j++) { // the next multiple of every angle is one rotation away
      const next = c[j] * c1[j] - s[j] * s1[j];
      s[j] = s[j] * c1[j] + c[j] * s1[j];
      c[j] = next;
      down[j] = -h * s[j];
      factor[j] = member[j] ? s[j] : c[j];
      slope[j] = member[j] ? h * c[j] : down[j];
    }
    parts[0].value += product(labelFree[m], c, down, parts[0].gradient, left);
    parts[1].value += product(parity[m], factor, slope, parts[1].gradient, left);
  }
  return parts;
}

/* Minus the logarithm of the permanent of a k x k table, and its gradient. Sets of columns are bit masks:
   below[S] is the permanent of the first |S| rows on S, above[S] that of the other rows on the other columns. */
function logPermanent(rows) {
  const k = rows.length, full = 2 ** k - 1;
  const size = mask => mask.toString(2).replaceAll("0", "").length;
  const scale = rows.map(row => Math.max(...row, Number.MIN_VALUE)); // keeps tiny permanents in range
  const scaled = rows.map((row, i) => row.map(x => x / scale[i]));
  const below = new Array(full + 1).fill(0), above = new Array(full + 1).fill(0);
  below[0] = above[full] = 1;
  for (let set = 1; set <= full; set++)
    for (let j = 0; j < k; j++)
      if (set >> j & 1) below[set] += scaled[size(set) - 1][j] * below[set ^ 1 << j];
  const gradient = rows.map(() => new Array(k).fill(0));
  for (let set = full - 1; set >= 0; set--) {
    const i = size(set);
    for (let j = 0; j < k; j++) {
      if (set >> j & 1) continue;
      above[set] += scaled[i][j] * above[set | 1 << j];
      gradient[i][j] -= below[set] * above[set | 1 << j] / below[full] / scale[i];
    }
  }
  return {value: -Math.log(below[full]) - scale.reduce((sum, x) => sum + Math.log(x), 0), gradient};
}

/* sin and cos of 2 pi f j / n for the frequencies f of the code, one row per position. */
function positionalCode(n, code) {
  const frequencies = code === "circle" ? [1] : Array.from({length: Math.floor(Math.log2(n))}, (_, i) => 2 ** i);
  return Array.from({length: n}, (_, j) => frequencies.flatMap(f => {
    const angle = 2 * Math.PI * f * (j + 1) / n;
    return [Math.sin(angle), Math.cos(angle)];
  }));
}

/* Attention, risk and the two forces (gradients with respect to every head's direction) in one setting. */
function evaluate({n, bits, loss, smoothing, temperature, code}, directions) {
  const table = positionalCode(n, code), k = bits.length;
  const attention = directions.map(a => {
    const scores = table.map(row => row.reduce((sum, x, w) => sum + x * a[w], 0) / temperature);
    const top = Math.max(...scores), odds = scores.map(x => Math.exp(x - top));
    const total = odds.reduce((sum, x) => sum + x, 0);
    return odds.map(x => x / total);
  });
  const weights = Float64Array.from({length: n}, (_, j) => attention.reduce((sum, row) => sum + row[j], 0));
  let parts; // of the risk: value, and gradient with respect to each head's attention
  if (loss === "repaired") {
    const {value, gradient} = logPermanent(attention.map(row => bits.map(bit => row[bit - 1])));
    const spread = gradient.map(row => {
      const all = new Float64Array(n);
      bits.forEach((bit, b) => { all[bit - 1] = row[b]; });
      return all;
    });
    parts = [{value: 0, gradient: attention.map(() => new Float64Array(n))}, {value, gradient: spread}];
  } else {
    const member = Array.from({length: n}, (_, j) => bits.includes(j + 1));
    parts = zigzagRisk(weights, member, loss, k, smoothing)
      .map(({value, gradient}) => ({value, gradient: attention.map(() => gradient)})); // the same for every head
  }
  const forces = parts.map(part => attention.map((row, i) => { // through the softmax
    const mean = row.reduce((sum, x, j) => sum + x * part.gradient[i][j], 0);
    const pull = row.map((x, j) => x * (part.gradient[i][j] - mean) / temperature);
    return directions[i].map((_, w) => pull.reduce((sum, x, j) => sum + x * table[j][w], 0));
  }));
  const risk = parts[0].value + parts[1].value;
  return {attention, weights, risk, forces: {labelFree: forces[0], parity: forces[1]}};
}

/* Risk of heads that read the bits of B exactly: what a solution reaches. */
function solvedRisk(loss, k, smoothing) {
  if (loss === "repaired") return 0;
  let total = 0;
  for (let s = 0, ways = 1; s <= k; ways *= (k - s) / ++s) {
    total += ways / 2 ** k * LOSSES[loss].of(s % 2 ? -1 : 1, zigzag(s, k, smoothing));
  }
  return total;
}

/* torch's CPU generator (Mersenne twister, Matsumoto and Nishimura 1998), so that a seed here is the start
   that the same seed gives in Python. */
function torchGenerator(seed) {
  const state = new Uint32Array(624);
  state[0] = seed;
  for (let i = 1; i < 624; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ state[i - 1] >>> 30) + i;
  let at = 624;
  const word = () => {
    if (at === 624) {
      for (let i = 0; i < 624; i++) {
        const y = state[i] & 0x80000000 | state[(i + 1) % 624] & 0x7fffffff;
        state[i] = state[(i + 397) % 624] ^ y >>> 1 ^ (y & 1 ? 0x9908b0df : 0);
      }
      at = 0;
    }
    let y = state[at++];
    y ^= y >>> 11; y ^= y << 7 & 0x9d2c5680; y ^= y << 15 & 0xefc60000; y ^= y >>> 18;
    return y >>> 0;
  };
  const uniform = () => ((word() & 0x1fffff) * 2 ** 32 + word()) / 2 ** 53; // 53 bits of two words
  const normals = count => { // torch pairs its numbers differently from 16 on
    if (count < 16) {
      const values = [];
      while (values.length < count) {
        const u = uniform(), radius = Math.sqrt(-2 * Math.log1p(-uniform()));
        values.push(radius * Math.cos(2 * Math.PI * u), radius * Math.sin(2 * Math.PI * u));
      }
      return values.slice(0, count);
    }
    const values = Array.from({length: count}, uniform);
    const pair = from => {
      for (let i = from; i < from + 8; i++) {
        const radius = Math.sqrt(-2 * Math.log(1 - values[i])), angle = 2 * Math.PI * values[i + 8];
        values[i] = radius * Math.cos(angle); values[i + 8] = radius * Math.sin(angle);
      }
    };
    for (let from = 0; from + 16 <= count; from += 16) pair(from);
    if (count % 16) {
      for (let i = count - 16; i < count; i++) values[i] = uniform();
      pair(count - 16);
    }
    return values;
  };
  return {uniform, normals};
}

/* The paper's start, unit vectors in random directions: training.initial_directions. */
function initialDirections({n, bits, code, seed}) {
  const random = torchGenerator(seed), angles = bits.map(() => 2 * Math.PI * random.uniform());
  if (code === "circle") return angles.map(angle => [Math.cos(angle), Math.sin(angle)]);
  const width = positionalCode(n, code)[0].length, gaussian = random.normals(bits.length * width);
  return bits.map((_, i) => {
    const row = gaussian.slice(i * width, (i + 1) * width), norm = Math.hypot(...row);
    return row.map(x => x / norm);
  });
}

/* A run: its directions, the state they give, and one update at a time. */
class Run {
  constructor(setting) {
    this.setting = setting;
    this.step = 0;
    this.directions = initialDirections(setting);
    this.mean = this.directions.map(row => row.map(() => 0)); // Adam's two averages
    this.square = this.directions.map(row => row.map(() => 0));
    this.state = evaluate(setting, this.directions);
  }

  update() {
    const {labelFree, parity} = this.state.forces, {optimiser, rate} = this.setting;
    this.step++;
    this.directions = this.directions.map((row, i) => row.map((x, w) => {
      const g = labelFree[i][w] + parity[i][w];
      if (optimiser === "gd") return x - rate * g;
      const m = this.mean[i][w] = 0.9 * this.mean[i][w] + 0.1 * g;
      const v = this.square[i][w] = 0.999 * this.square[i][w] + 0.001 * g * g;
      return x - rate / (1 - 0.9 ** this.step) * m / (Math.sqrt(v / (1 - 0.999 ** this.step)) + 1e-8);
    }));
    this.state = evaluate(this.setting, this.directions);
  }

  get finite() { return Number.isFinite(this.state.risk) && this.directions.flat().every(Number.isFinite); }
}

// ---------------------------------------------------------------------------------------------------
// 2. The words: what the state says, and why a setting cannot run

const two = x => x.toFixed(2);
const raised = power => [...String(power)].map(sign => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("");
const size = x => { // 2.5·10¹⁴
  if (x < 1e-12) return "0";
  const [digits, power] = x.toExponential(1).split("e");
  return Number(power) ? `${digits}·10${raised(Number(power))}` : digits;
};
const norm = row => Math.hypot(...row);
const list = (items, word = "and") =>
  items.length < 2 ? `${items}` : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`;
const heads = which => `${which.length > 1 ? "heads" : "head"} ${list(which.map(i => i + 1))}`;
const capital = text => text[0].toUpperCase() + text.slice(1);
const quantity = loss => loss === "repaired" ? "−log perm" : "risk"; // what is minimised
const topOf = row => row.indexOf(Math.max(...row));

/* Every head's best position, the share it gets, and the neighbour it is shared with, if it is. */
function readings(attention) {
  return attention.map(row => {
    const n = row.length, j = topOf(row), before = (j + n - 1) % n, after = (j + 1) % n;
    const second = row[before] > row[after] ? before : after;
    const split = row[j] <= COMMITTED && row[second] > 0.35;
    const [low, high] = second === after ? [j, after] : [before, j];
    const between = split ? `${low + 1} and ${high + 1}` : "";
    return {position: j + 1, share: row[j], locked: row[j] > COMMITTED, between};
  });
}

/* One to four sentences, all of them read off the state. */
function describe(run, settled) {
  const {bits} = run.setting, {attention, forces} = run.state, read = readings(attention);
  const which = test => read.flatMap((r, i) => test(r) ? [i] : []);
  const unread = bits.filter(bit => !read.some(r => r.position === bit));
  const hard = unread.length === 0;
  if (hard && read.every(r => r.locked)) {
    const each = read.map((r, i) => `head ${i + 1} reads ${r.position} (${two(r.share)})`);
    return `Every bit of B has a head of its own: ${list(each)}. Hard attention would compute the parity exactly.`;
  }
  const said = [];
  if (run.step === 0) said.push("The heads start in random directions.");
  if (settled) said.push("Hardly anything moves any more.");
  for (const pair of new Set(read.map(r => r.between).filter(Boolean))) {
    const sharing = which(r => r.between === pair);
    const verb = sharing.length > 1 ? "share" : "points in";
    said.push(`${capital(heads(sharing))} ${verb} the direction between ${pair}.`);
  }
  for (const position of new Set(read.filter(r => r.locked).map(r => r.position))) {
    const there = which(r => r.locked && r.position === position);
    const wrong = bits.includes(position) ? "" : ", which is not in B";
    const verb = there.length > 1 ? "both read" : wrong ? "has locked onto" : "has found";
    said.push(`${capital(heads(there))} ${there.length > 2 ? "all read" : verb} ${position}${wrong}.`);
  }
  const spread = which(r => !r.locked && !r.between);
  if (spread.length) {
    const most = Math.max(...spread.map(i => read[i].share));
    const are = spread.length > 1 ? "are" : "is";
    said.push(`${capital(heads(spread))} ${are} undecided, with at most ${two(most)} on one position.`);
  }
  const torn = read.findIndex(r => r.between);
  if (hard && torn < 0) said.push("Their best positions are already the bits of B: hard attention would succeed.");
  else if (hard) {
    const share = two(read[torn].share);
    said.push(`Hard attention would succeed only by a hair: head ${torn + 1} gives its best position ${share}.`);
  } else if (run.step) said.push(`Hard attention would fail: no head reads ${list(unread, "or")} first.`);
  const [free, signal] = [forces.labelFree, forces.parity].map(force => norm(force.flat()));
  if (settled && !hard) {
    const solved = solvedRisk(run.setting.loss, bits.length, run.setting.smoothing);
    said.push(`The ${quantity(run.setting.loss)} stands at ${two(run.state.risk)}; with heads that read B it would be ${two(solved)}.`);
  }
  if (!settled && free > 3 * signal) {
    const times = free / signal < 1000 ? Math.round(free / signal) : size(free / signal);
    const much = signal > 0 ? `The label-free force is ${times} times the parity signal` : "The parity signal is zero";
    said.push(`${much}: the heads follow a force blind to B.`);
  }
  return said.join(" ");
}

/* Why this setting cannot be trained, or nothing. */
function problem({n, bits, loss, smoothing, temperature, code, optimiser, rate, seed}) {
  const outside = (x, [low, high], whole) => !(x >= low && x <= high) || whole && !Number.isInteger(x); // NaN too
  const range = ([low, high]) => `from ${low} to ${high}`;
  if (outside(n, RANGES.n, true)) return `n must be a whole number ${range(RANGES.n)}.`;
  if (bits.length === 0) return "B is empty: choose at least one bit on the circle.";
  if (!bits.every(Number.isInteger)) return "B must be whole numbers with commas between them.";
  const below = bits.filter(bit => bit < 1), above = bits.filter(bit => bit > n);
  if (below.length) return `Positions count from 1 to ${n}: there is no position ${list(below, "or")}.`;
  if (above.length) return `n is too small for B: there is no position ${list(above, "or")} among 1 to ${n}.`;
  if (new Set(bits).size < bits.length) return "B must not name a position twice.";
  if (bits.length > RANGES.k[1]) return `B may have at most ${RANGES.k[1]} bits here, got ${bits.length}.`;
  if (outside(smoothing, RANGES.smoothing)) return `The smoothing must be a number ${range(RANGES.smoothing)}.`;
  if (outside(temperature, RANGES.temperature)) return `The temperature must be a number ${range(RANGES.temperature)}.`;
  if (outside(rate, RANGES.rate)) return `The step size must be a number ${range(RANGES.rate)}.`;
  if (outside(seed, RANGES.seed, true)) return `The seed must be a whole number ${range(RANGES.seed)}.`;
  if (!loss || !code || !optimiser) return "The address names a loss, code or optimiser that is not in the lists.";
  return "";
}

/* A setting as the part of an address behind #, and back; what an address does not name stays as it is. */
const NAMES = ["n", "bits", "loss", "smoothing", "temperature", "code", "optimiser", "rate", "seed"];
const toAddress = setting => NAMES.map(name => `${name}=${setting[name]}`).join("&");
function fromAddress(text) {
  const given = new URLSearchParams(text.replace(/^#/, "").slice(0, 500));
  return Object.fromEntries(NAMES.filter(name => given.has(name)).map(name => [name, given.get(name)]));
}

/* The command that repeats the run in Python, to the step that is shown. */
function command(setting, step) {
  return `parity run one_run ${NAMES.map(name => `-p ${name} ${setting[name]}`).join(" ")} -p updates ${step || 900}`;
}

// ---------------------------------------------------------------------------------------------------
// 3. The pictures. Colours live in live.css, so that light and dark need no script.

const VIRIDIS = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"]
  .map(hex => [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16)));
function colour(share) {
  const x = Math.min(0.9999, Math.max(0, share)) * (VIRIDIS.length - 1), i = Math.floor(x);
  return VIRIDIS[i].map((low, c) => Math.round(low + (x - i) * (VIRIDIS[i + 1][c] - low)));
}

function draw(parent, tag, attributes, text) {
  const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}
const at = (turn, r) => [r * Math.sin(2 * Math.PI * turn), -r * Math.cos(2 * Math.PI * turn)];

/* Where a head points, in turns: its direction on the circle code, else the mean of what it reads. */
function turnOf(run, i) {
  const row = run.state.attention[i], n = row.length;
  const sum = part => row.reduce((total, x, j) => total + x * part(2 * Math.PI * (j + 1) / n), 0);
  const [x, y] = run.setting.code === "circle" ? run.directions[i] : [sum(Math.sin), sum(Math.cos)];
  return (Math.atan2(x, y) / (2 * Math.PI) + 1) % 1;
}

/* The circle of positions: every position a check box for B, every head an arrow, every force a thin arrow. */
class Circle {
  constructor(svg, toggle, id) {
    this.id = id;
    this.svg = svg;
    this.toggle = toggle;
    this.focus = 1; // the position that Tab reaches; arrow keys go on from there
    svg.addEventListener("click", event => this.choose(event.target.closest("[data-position]")));
    svg.addEventListener("keydown", event => {
      const move = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (move) {
        this.focus = (this.focus - 1 + move + this.n) % this.n + 1;
        this.tab();
        this.spots[this.focus - 1].focus();
      } else if (event.key === " " || event.key === "Enter") this.choose(event.target.closest("[data-position]"));
      else return;
      event.preventDefault();
    });
  }

  choose(spot) {
    if (!spot) return;
    this.focus = Number(spot.dataset.position);
    this.tab();
    this.toggle(this.focus);
  }

  tab() { this.spots.forEach((spot, j) => spot.setAttribute("tabindex", j + 1 === this.focus ? 0 : -1)); }

  layout(n) {
    this.n = n;
    this.focus = Math.min(this.focus, n);
    this.svg.replaceChildren();
    draw(this.svg, "circle", {r: 100, class: "ring"});
    this.spots = Array.from({length: n}, (_, i) => {
      const j = i + 1, from = (j - 0.5) / n, to = (j + 0.5) / n;
      const spot = draw(this.svg, "g", {"data-position": j, role: "checkbox", "aria-label": `position ${j}`});
      spot.setAttribute("font-size", n > 28 ? 9 : 11);
      const [a, b, c, d] = [at(from, 80), at(from, 150), at(to, 150), at(to, 80)];
      draw(spot, "path", {d: `M${a}L${b}A150 150 0 0 1 ${c}L${d}Z`, class: "hit"}); // wide enough for a finger
      const [x, y] = at(j / n, 100), [tx, ty] = at(j / n, 130);
      draw(spot, "circle", {cx: x, cy: y, r: 4, class: "dot"});
      draw(spot, "text", {x: tx, y: ty}, j);
      return spot;
    });
    this.tab();
    this.layers = ["forces", "arrows", "numbers"].map(name => draw(this.svg, "g", {class: name, "aria-hidden": true}));
  }

  show(n, bits, run) {
    if (n !== this.n) this.layout(n);
    this.spots.forEach((spot, j) => {
      const weight = run ? run.state.weights[j] : 0;
      spot.setAttribute("aria-checked", bits.includes(j + 1));
      spot.querySelector(".dot").setAttribute("r", 4 + 8 * Math.sqrt(weight / 2));
      spot.querySelector(".dot").style.fill = run ? `rgb(${colour(weight)})` : "";
    });
    this.layers.forEach(layer => layer.replaceChildren());
    if (!run) return;
    const [pulls, arrows, numbers] = this.layers;
    const {attention, forces} = run.state, flat = run.setting.code === "circle";
    const longest = Math.max(...[...forces.labelFree, ...forces.parity].map(norm));
    const turns = attention.map((_, i) => turnOf(run, i)), apart = (a, b) => Math.abs((a - b + 1.5) % 1 - 0.5) * n;
    attention.forEach((row, i) => {
      const length = 18 + 68 * Math.max(...row), [x, y] = at(turns[i], length);
      const below = turns.slice(0, i).filter(turn => apart(turn, turns[i]) < 0.25).length; // heads this one covers
      draw(arrows, "line", {x1: 0, y1: 0, x2: x, y2: y, class: `head-${i}${below ? " over" : ""}`});
      for (const kind of flat && longest > 0 ? ["labelFree", "parity"] : []) { // downhill is minus the gradient
        const [fx, fy] = forces[kind][i].map(g => -g / longest * 42);
        if (Math.hypot(fx, fy) < 1) continue;
        const line = draw(pulls, "line", {x1: x, y1: y, x2: x + fx, y2: y - fy, class: `force ${kind}`});
        line.setAttribute("marker-end", `url(#${this.id}-tip-${kind})`);
      }
      const [cx, cy] = at(turns[i], Math.max(8, length - 17 * below));
      draw(numbers, "circle", {cx, cy, r: 8, class: `head-${i}`});
      draw(numbers, "text", {x: cx, y: cy}, i + 1);
    });
  }
}

/* What a run has been through, at most FRAMES frames: when they are full every other one goes. */
const FRAMES = 480;
class History {
  constructor() { this.stride = 1; this.frames = []; }

  add({step, state}) {
    if (step % this.stride) return;
    this.frames.push({step, attention: state.attention, risk: state.risk});
    if (this.frames.length <= FRAMES) return;
    this.stride *= 2;
    this.frames = this.frames.filter(frame => frame.step % this.stride === 0);
  }

  get span() { return this.frames.at(-1).step; }
}

/* One heat map per head, position upwards against step, colour = attention: the paper's Figure 2. A frame is one
   column of pixels, and the style stretches however many there are over the whole width. */
function heatMaps(root, {n, bits}, history) {
  const key = `${n}:${bits}`;
  if (root.dataset.key !== key) {
    root.dataset.key = key;
    let lowest = -Infinity; // labels of neighbouring bits are moved apart, in per cent of the height
    const labels = [...bits].reverse().map(bit => {
      lowest = Math.max(100 * (n - bit + 0.5) / n, lowest + 8);
      return `<span style="top:${lowest}%">${bit}</span>`;
    });
    root.replaceChildren(...bits.map((_, i) => {
      const figure = document.createElement("figure");
      figure.innerHTML = `<figcaption class="head-${i}">head ${i + 1}</figcaption>
        <div class="map"><canvas height="${n}" role="img"></canvas>${labels.join("")}</div>
        <div class="axis"><span>0</span><span>step</span><output></output></div>`;
      return figure;
    }));
  }
  [...root.children].forEach((figure, i) => {
    const canvas = figure.querySelector("canvas"), width = history.frames.length, image = new ImageData(width, n);
    history.frames.forEach(({attention}, x) => {
      for (let j = 0; j < n; j++) image.data.set([...colour(attention[i][j]), 255], 4 * ((n - 1 - j) * width + x));
    });
    canvas.width = width;
    canvas.getContext("2d").putImageData(image, 0, 0);
    const last = history.frames.at(-1).attention[i], top = topOf(last);
    canvas.setAttribute("aria-label",
      `Heat map of head ${i + 1}, position against step; it now gives ${two(last[top])} to position ${top + 1}.`);
    figure.querySelector("output").textContent = history.span;
  });
}

/* What is minimised against the step, above a dashed line for heads that read B exactly. */
function riskCurve(svg, {loss, bits, smoothing}, history) {
  const solved = solvedRisk(loss, bits.length, smoothing), risks = history.frames.map(frame => frame.risk);
  const high = Math.max(...risks, solved + 1e-9), scale = 94 / (high - solved);
  const x = step => 44 + 270 * step / Math.max(1, history.span), y = risk => 104 - (risk - solved) * scale;
  svg.replaceChildren();
  svg.setAttribute("aria-label",
    `${capital(quantity(loss))} against step: now ${risks.at(-1).toPrecision(4)}, ${solved.toPrecision(3)} for heads that read B exactly.`);
  draw(svg, "path", {d: "M44 8V118H316", class: "axis"});
  draw(svg, "path", {d: `M44 ${y(solved)}H316`, class: "solved"});
  const points = history.frames.map(({step, risk}) => `${x(step)},${y(risk)}`).join(" ");
  draw(svg, "polyline", {points, class: "curve"});
  draw(svg, "circle", {cx: x(history.frames.at(-1).step), cy: y(risks.at(-1)), r: 3.5, class: "now"});
  draw(svg, "text", {x: 40, y: y(high), "text-anchor": "end"}, high.toPrecision(3));
  draw(svg, "text", {x: 40, y: y(solved), "text-anchor": "end"}, solved < 1e-2 ? two(solved) : solved.toPrecision(3));
  draw(svg, "text", {x: 314, y: y(solved) + 7, "text-anchor": "end"}, "heads that read B exactly");
  draw(svg, "text", {x: 44, y: 129}, "0");
  draw(svg, "text", {x: 180, y: 129, "text-anchor": "middle"}, "step");
  draw(svg, "text", {x: 316, y: 129, "text-anchor": "end"}, history.span);
}

/* Both forces on every head, and their sum, as bars on a common logarithmic scale, 1e-8 to 10. */
function forceTable(body, run) {
  const length = x => `${Math.max(0, Math.min(100, 100 * (Math.log10(x + 1e-300) + 8) / 9))}%`;
  const bar = (kind, x) => `<td class="bar ${kind}" style="--length:${length(x)}"><span>${size(x)}</span></td>`;
  body.innerHTML = run.state.attention.map((row, i) => {
    const n = row.length, place = (turnOf(run, i) * n + n - 0.5) % n + 0.5; // in [0.5, n + 0.5)
    const {labelFree, parity} = run.state.forces, net = labelFree[i].map((x, w) => x + parity[i][w]);
    const [free, signal, sum] = [labelFree[i], parity[i], net].map(norm);
    return `<tr><th scope="row" class="head-${i}">${i + 1}</th><td>${place.toFixed(1)}</td>
      <td>${two(Math.max(...row))}</td>${bar("labelFree", free)}${bar("parity", signal)}${bar("net", sum)}</tr>`;
  }).join("");
}

// ---------------------------------------------------------------------------------------------------
// 4. The page

const SPEED = 180; // steps a second: slow enough to watch, an end within seconds
const LONGEST = 3000; // steps, a little less than the paper's 30 epochs
const WINDOW = 100; // a run has settled when no attention moves by more than STILL in so many steps, nor in one
const STILL = 0.02;

const FIGURE2 = { // the recipe figure2-signed
  n: 20, bits: [8, 11, 18], loss: "sigmoid_hinge", smoothing: 0.01, temperature: 1, code: "circle",
  optimiser: "adam", rate: 0.08, seed: 0,
};
const REPAIRED = {...FIGURE2, loss: "repaired", rate: 0.3}; // the recipe repaired
const NEIGHBOURS = {...FIGURE2, bits: [5, 16, 17]};
// Theorem 5 as stated; the paper names no step size, and at 0.1 a head jumps to and fro here.
const THEORY = {...FIGURE2, loss: "squared_hinge", temperature: 1 / 20, optimiser: "gd", rate: 0.01}; // opens the page
const STORIES = {
  left: [FIGURE2],
  right: [NEIGHBOURS],
  repaired: [{...THEORY, bits: NEIGHBOURS.bits}, {...NEIGHBOURS, loss: "squared_hinge", rate: 0.3}, {...REPAIRED, bits: NEIGHBOURS.bits}],
};

function page(root, number) {
  const compact = root.classList.contains("compact"), id = `live-${number}`;
  root.innerHTML = markup(id);
  const one = selector => root.querySelector(selector), form = one("form");
  const start = one("[data-do=start]"), step = one("[data-do=step]");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let setting, run, history, running = false, settled = false, mark, acts = [], spoken = 0;
  let cancel = () => {}, loaded = false; // what was to happen next; whether the address may be written
  const circle = new Circle(one(".positions"), bit => {
    const {bits} = setting, others = bits.filter(b => b !== bit);
    write({bits: others.length < bits.length ? others : [...bits, bit].sort((a, b) => a - b)});
    fresh();
  }, id);

  const read = () => {
    const {n, bits, loss, smoothing, temperature, code, optimiser, rate, seed} = form.elements;
    const number = field => field.value.trim() === "" ? NaN : Number(field.value);
    return {
      n: number(n), bits: bits.value.split(/[\s,]+/).filter(Boolean).map(Number), loss: loss.value,
      smoothing: number(smoothing), temperature: number(temperature), code: code.value, optimiser: optimiser.value,
      rate: number(rate), seed: number(seed),
    };
  };

  const write = values => {
    for (const name in values) form.elements[name].value = name === "bits" ? String(values.bits).replaceAll(/,\s*/g, ", ") : values[name];
  };

  /* A setting was made: start over from it, or say why it cannot run. */
  function fresh(clear = true) {
    stop();
    if (clear) { one(".live-log").replaceChildren(); one(".live-kept").replaceChildren(); acts = []; }
    setting = read();
    if (!compact && loaded) writeAddress(`#${toAddress(setting)}`);
    const reason = problem(setting);
    one(".live-reason").textContent = reason;
    start.disabled = step.disabled = reason !== "";
    root.classList.toggle("invalid", reason !== "");
    settled = false;
    run = reason ? null : new Run({...setting, bits: [...setting.bits].sort((a, b) => a - b)});
    history = new History();
    if (run) { history.add(run); mark = run.state.attention; }
    show(true);
  }

  function show(speak) {
    const drawable = Number.isInteger(setting.n) && setting.n >= RANGES.n[0] && setting.n <= RANGES.n[1];
    circle.show(drawable ? setting.n : circle.n, setting.bits, run);
    start.textContent = running ? "Pause" : run && run.step ? "Run on" : "Start";
    one(".live-step").textContent = run ? `step ${run.step}` : "";
    one(".live-command code").textContent = run ? command(run.setting, run.step) : "";
    one(".live-sentence").setAttribute("aria-busy", running); // read aloud when the run pauses
    if (!run) { one(".live-sentence").textContent = ""; return; }
    heatMaps(one(".live-maps"), run.setting, history);
    riskCurve(one(".live-risk svg"), run.setting, history);
    one(".live-risk span").textContent = capital(quantity(run.setting.loss));
    one(".live-risk output").textContent = run.state.risk.toPrecision(5);
    forceTable(one("tbody"), run);
    if (speak) say();
  }

  /* The sentence, and a line in the log when it says something new, numbers apart. */
  function say() {
    spoken = performance.now();
    const text = describe(run, settled), bare = s => s.replace(/\d+\.\d+|\d+(?= times)/g, "");
    one(".live-sentence").textContent = text;
    const log = one(".live-log"), last = log.lastElementChild;
    if (last && bare(last.dataset.text) === bare(text)) return;
    const line = log.appendChild(document.createElement("li"));
    line.dataset.text = text;
    line.textContent = `${settingInWords()}, step ${run.step}: ${text}`;
  }

  /* Leave the run as it is now below, and go on with another beside it. */
  function keep() {
    if (!run) return;
    const kept = document.createElement("figure"), caption = document.createElement("figcaption");
    for (const canvas of root.querySelectorAll(".live-maps canvas")) {
      const copy = canvas.cloneNode();
      copy.getContext("2d").drawImage(canvas, 0, 0);
      kept.append(copy);
    }
    caption.textContent = `${settingInWords()}, step ${run.step}: ${describe(run, settled)}`;
    kept.append(caption);
    one(".live-kept").append(kept);
  }

  const settingInWords = () => {
    const {loss, optimiser} = form.elements, [what, how] = [loss, optimiser].map(field => field.selectedOptions[0].text);
    return `${what}, ${how}, temperature ${run.setting.temperature}`;
  };

  function later(action, wait = 0) {
    const id = setTimeout(action, wait);
    cancel = () => clearTimeout(id);
  }

  function stop() {
    cancel();
    running = false;
  }

  /* One update; true when the run is over: settled, out of steps, or out of the numbers' range. */
  function advance() {
    const before = run.state.attention;
    run.update();
    if (!run.finite) {
      one(".live-reason").textContent =
        `The run left the range of numbers at step ${run.step}: try a smaller step size or a higher temperature.`;
      start.disabled = step.disabled = true;
      run = null;
      return true;
    }
    history.add(run);
    settled = false;
    if (run.step % WINDOW) return false;
    const still = old => run.state.attention.every((row, i) => row.every((x, j) => Math.abs(x - old[i][j]) < STILL));
    settled = still(mark) && still(before); // heads that jump to and fro are back where they were, but not still
    mark = run.state.attention;
    return settled || run.step % LONGEST === 0;
  }

  function finish() {
    stop();
    show(true);
    root.dispatchEvent(new CustomEvent("end", {detail: {step: run ? run.step : 0, more: acts.length}}));
    if (!run || !acts.length) return;
    keep();
    later(() => { write(acts.shift()); fresh(false); play(); }, calm.matches ? 0 : 1500);
  }

  function play() {
    if (!run) return;
    running = true;
    settled = false;
    show(true);
    if (calm.matches) { // no motion: compute in slices that leave the page usable, draw once at the end
      const slice = () => {
        const until = performance.now() + 40;
        while (performance.now() < until) if (advance()) return finish();
        later(slice);
      };
      later(slice);
      return;
    }
    let before = performance.now(), owed = 0;
    const frame = now => {
      owed = Math.min(SPEED / 2, owed + (now - before) / 1000 * SPEED); // keeps pace when frames are rare
      before = now;
      for (; owed >= 1; owed--) if (advance()) return finish();
      show(now - spoken > 700);
      next();
    };
    const next = () => { const id = requestAnimationFrame(frame); cancel = () => cancelAnimationFrame(id); };
    next();
  }

  start.addEventListener("click", () => { if (running) { stop(); show(true); } else play(); });
  step.addEventListener("click", () => { stop(); advance(); show(true); });
  one("[data-do=reset]").addEventListener("click", () => fresh());
  one("[data-do=keep]").addEventListener("click", keep);
  one(".live-link").addEventListener("click", event => { // not in the href: the theme takes every # there for an id
    event.preventDefault();
    location.href = `../book/live.html#${toAddress(setting)}`;
  });
  form.addEventListener("input", () => fresh());
  form.addEventListener("submit", event => event.preventDefault());
  for (const button of root.querySelectorAll("[data-story]")) {
    button.addEventListener("click", () => {
      const [first, ...rest] = STORIES[button.dataset.story];
      write(first);
      fresh();
      acts = rest;
      play();
    });
  }
  write({...THEORY, ...fromAddress(compact ? root.dataset.setting || "" : location.hash)});
  if (!compact) { // the theme takes the address for the name of a section while it loads, so that it is put back after
    writeAddress("#");
    addEventListener("load", () => setTimeout(() => { loaded = true; writeAddress(`#${toAddress(setting)}`); }));
    addEventListener("hashchange", () => { write(fromAddress(location.hash)); fresh(); });
  }
  fresh();
}

/* Without a step in the history; not every browser lets a page from disk do so. */
function writeAddress(address) {
  try { window.history.replaceState(null, "", address); } catch { /* then the address stays */ }
}

/* The controls and pictures, empty; the links lead to where a setting is explained. */
function markup(id) {
  const field = (name, label, control, link) =>
    `<label for="${id}-${name}">${label}</label>${control(`id="${id}-${name}" name="${name}"`)}${link}`;
  const number = (low, high, step, mode) => attributes =>
    `<input ${attributes} type="number" min="${low}" max="${high}" step="${step}" inputmode="${mode}">`;
  const select = options => attributes =>
    `<select ${attributes}>${options.map(([value, text]) => `<option value="${value}">${text}</option>`).join("")}</select>`;
  const link = (place, text, label) => `<a href="../notebooks/${place}" aria-label="${label}">${text}</a>`;
  const tip = kind => `<marker id="${id}-tip-${kind}" class="${kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="4"
    markerHeight="4" orient="auto"><path class="tip" d="M0 0L8 4L0 8Z"/></marker>`;
  return `
<div class="live-stories" role="group" aria-label="Stories">
<button type="button" data-story="left">Figure 2, left<small>three heads, three bits</small></button>
<button type="button" data-story="right">Figure 2, right<small>neighbours share a direction</small></button>
<button type="button" data-story="repaired">The squared hinge gets stuck; heads that sample do not<small>one start, three runs, kept side by side</small></button>
</div>
<div class="live-top">
<figure class="live-circle">
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>${tip("labelFree")}${tip("parity")}</defs></svg>
<svg class="positions" viewBox="-150 -150 300 300" role="group" aria-label="Circle of positions. Every position is a check box: checked positions are the bits of B."></svg>
<figcaption>Arrows are heads, the longer the more attention their best position gets. Dots take the colour of the attention they get; green rings are the bits <em>B</em>. Thin arrows pull on the heads: <span class="swatch labelFree">label-free</span> and <span class="swatch parity">parity</span> force, the longest drawn at full length.</figcaption>
</figure>
<form aria-label="Setting">
${field("n", "positions n", number(6, 40, 1, "numeric"), link("architecture.html", "the model", "positions: chapter The model"))}
${field("bits", "bits B", attributes => `<input ${attributes} type="text" autocomplete="off">`, link("robustness.html", "which sets?", "bits: chapter Robustness"))}
${field("loss", "loss", select([["squared_hinge", "squared hinge"], ["sigmoid_hinge", "sigmoid hinge"], ["repaired", "heads that sample, −log perm"]]), link("convergence.html", "two forces", "loss: chapter Convergence"))}
${field("smoothing", "smoothing b", number(0.001, 1, "any", "decimal"), link("convergence.html", "the map", "smoothing: chapter Convergence"))}
${field("temperature", "temperature", number(0.01, 100, "any", "decimal"), link("robustness.html", "how sharp?", "temperature: chapter Robustness"))}
${field("code", "positional code", select([["circle", "circle"], ["powers", "powers 1, 2, 4…"]]), link("robustness.html", "neighbours", "positional code: chapter Robustness"))}
${field("optimiser", "updates", select([["adam", "Adam"], ["gd", "gradient descent"]]), link("figure2.html", "recipes", "updates: chapter Figure 2"))}
${field("rate", "step size", number(0.000001, 10, "any", "decimal"), link("convergence.html", "Theorem 5", "step size: chapter Convergence"))}
${field("seed", "seed", number(0, 4294967295, 1, "numeric"), link("figure2.html", "how often?", "seed: chapter Figure 2"))}
</form>
</div>
<p class="live-reason" id="${id}-reason" role="alert"></p>
<div class="live-buttons">
<button type="button" data-do="start" aria-describedby="${id}-reason">Start</button>
<button type="button" data-do="step" aria-describedby="${id}-reason">One step</button>
<button type="button" data-do="reset">Back to the start</button>
<button type="button" data-do="keep">Keep beside the next</button>
<a class="live-link" href="../book/live.html">all controls</a>
<output class="live-step"></output>
</div>
<p class="live-sentence" aria-live="polite"></p>
<div class="live-maps"></div>
<div class="live-scale">attention 0 <i></i> 1</div>
<div class="live-kept" aria-label="Runs kept"></div>
<div class="live-below">
<div class="live-risk"><h3><span>Risk</span> <output></output></h3><svg viewBox="0 0 322 136" role="img"></svg></div>
<div class="live-forces"><h3>The two forces on each head, and their sum</h3><table>
<thead><tr><th scope="col">head</th><th scope="col">points at</th><th scope="col">most</th><th scope="col"><span class="swatch labelFree">label-free</span></th><th scope="col"><span class="swatch parity">parity</span></th><th scope="col"><span class="swatch net">net</span></th></tr></thead><tbody></tbody></table>
<p class="live-note">Norm of the gradient; bars on a logarithmic scale, 10⁻⁸ to 10. Where the net force is nil and the two are not, they hold each other.</p></div>
</div>
<div class="live-python"><h3>The same run in Python</h3><div class="live-command"><code></code></div>
<details><summary>What happened so far</summary><ol class="live-log"></ol></details></div>`;
}

window.parityLive = {evaluate, initialDirections, fourierSeries, solvedRisk, describe, fromAddress, toAddress, Run}; // for the tests
document.querySelectorAll(".live").forEach(page);
})();
