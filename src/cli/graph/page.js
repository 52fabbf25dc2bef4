"use strict";
const by = id => document.getElementById(id);
const tasks = JSON.parse(by("data").textContent);
const view = by("view"), svg = view.querySelector("svg"), details = by("details"), find = by("find");
const wide = Number(svg.getAttribute("width")), high = Number(svg.getAttribute("height"));
let scale = 1, at = null, matches = [], n_match = -1;

const key = (task, step) => task + "-" + step;
const box = id => by("s" + id);
const step_of = id => { const [task, step] = id.split("-").map(Number); return tasks[task].steps[step]; };

// What comes into each step and what goes out of it.
const into = new Map(), from = new Map();
const push = (map, id, what) => { const list = map.get(id); if (list) list.push(what); else map.set(id, [what]); };
tasks.forEach((task, t) => task.edges.forEach(([a, b, carries]) => {
  push(into, key(t, b), [key(t, a), carries]);
  push(from, key(t, a), [key(t, b), carries]);
}));
const lines = new Map();
for (const line of svg.querySelectorAll("path[data-f]")) {
  push(lines, line.dataset.f, line);
  push(lines, line.dataset.t, line);
}

const zoom = (to, x, y) => {
  to = Math.min(Math.max(to, 0.02), 4);
  const rect = view.getBoundingClientRect();
  x = x === undefined ? rect.width / 2 : x - rect.left;
  y = y === undefined ? rect.height / 2 : y - rect.top;
  const left = (view.scrollLeft + x) / scale, top = (view.scrollTop + y) / scale;
  scale = to;
  svg.setAttribute("width", wide * scale);
  svg.setAttribute("height", high * scale);
  view.scrollLeft = left * scale - x;
  view.scrollTop = top * scale - y;
};
const whole = () => zoom(Math.min(1, view.clientWidth / wide, view.clientHeight / high));

const make = (name, text, parent) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};
const joined = (title, list) => {
  if (!list) return;
  make("h3", title, details);
  const all = make("ul", undefined, details);
  for (const [other, carries] of list) {
    const item = make("li", undefined, all), button = make("button", step_of(other).id, item);
    button.addEventListener("click", () => choose(other, true));
    item.append(" " + (carries.length ? carries.join(", ") : "only the order"));
  }
};

const choose = (id, show) => {
  svg.querySelectorAll(".near,.at,.far").forEach(one => {
    if (one.classList.contains("far")) one.remove(); else one.classList.remove("near", "at");
  });
  at = id;
  svg.classList.toggle("chosen", id !== null);
  details.hidden = id === null;
  details.replaceChildren();
  if (id === null) return;
  const step = step_of(id), here = box(id);
  const drawn = new Set();
  for (const line of lines.get(id) || []) {
    line.classList.add("near");
    drawn.add(line.dataset.f + " " + line.dataset.t);
  }
  const far = (a, b) => {
    if (drawn.has(a + " " + b)) return;
    const p = box(a).transform.baseVal[0].matrix, q = box(b).transform.baseVal[0].matrix;
    const half = here.querySelector(".box").width.baseVal.value / 2, height = 58;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const y1 = p.f + height, bend = Math.max(30, (q.f - y1) / 3);
    line.setAttribute("class", "far near");
    line.setAttribute("d", `M${p.e + half} ${y1}C${p.e + half - 60} ${y1 + bend} ${q.e + half - 60} ${q.f - bend} ${q.e + half} ${q.f}`);
    here.parentNode.append(line);
  };
  for (const [other] of into.get(id) || []) { box(other).classList.add("near"); far(other, id); }
  for (const [other] of from.get(id) || []) { box(other).classList.add("near"); far(id, other); }
  here.classList.add("at");
  const close = make("button", "close", details);
  close.className = "close";
  close.addEventListener("click", () => { choose(null); view.focus(); });
  make("h2", step.id, details);
  make("p", step.kind + " · " + step.place, details);
  make("p", step.state, details).className = "state " + step.class;
  const why = make("ul", undefined, details);
  step.why.forEach(line => make("li", line, why));
  step.more.forEach(line => make("p", line, details));
  if (step.last) { make("h3", "Last run", details); make("p", step.last, details); }
  joined("Comes from", into.get(id));
  joined("Goes to", from.get(id));
  if (step.fields.length) {
    make("h3", "Fields", details);
    const list = make("dl", undefined, details);
    step.fields.forEach(([name, text]) => { make("dt", name, list); make("dd", text, list); });
  }
  if (show) bring(id);
};
const bring = id => {
  if (scale < 0.5) zoom(1);
  box(id).scrollIntoView({block: "center", inline: "center"});
};

// Tasks to choose from.
if (tasks.length > 1) {
  const select = by("tasks");
  select.hidden = false;
  tasks.forEach((task, n) => { make("option", task.name, select).value = n; });
  select.addEventListener("change", () => { view.scrollTop = tasks[select.value].top * scale; });
}

// Finding: the id first, then the type, then the state.
const search = () => {
  svg.querySelectorAll(".match").forEach(one => one.classList.remove("match"));
  const word = find.value.trim().toLowerCase();
  matches = [];
  n_match = -1;
  if (word) {
    const ranked = [];
    tasks.forEach((task, t) => task.steps.forEach((step, s) => {
      const places = [step.id, step.kind, step.state].map(text => text.toLowerCase().indexOf(word));
      const rank = places.findIndex(place => place >= 0);
      if (rank >= 0) ranked.push([rank * 2 + (rank === 0 && places[0] > 0), key(t, s)]);
    }));
    ranked.sort((a, b) => a[0] - b[0]);
    matches = ranked.map(one => one[1]);
    matches.forEach(id => box(id).classList.add("match"));
    if (matches.length) bring(matches[0]);
  }
  by("found").textContent = word ? (matches.length === 1 ? "1 step" : matches.length + " steps") : "";
};
find.addEventListener("input", search);
find.addEventListener("keydown", event => {
  if (event.key === "Enter" && matches.length) {
    n_match = (n_match + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
    if (n_match < 0) n_match = 0;
    choose(matches[n_match], true);
    by("found").textContent = (n_match + 1) + " of " + matches.length;
  }
  if (event.key === "Escape") { find.value = ""; search(); view.focus(); }
  event.stopPropagation();
});

// From step to step with the keys: up and down along what leads to and from a step, left and right beside it.
const beside = (id, direction) => {
  const [task] = id.split("-"), here = box(id).transform.baseVal[0].matrix;
  let best = null, gap = Infinity;
  tasks[task].steps.forEach((_, s) => {
    const other = box(key(task, s)).transform.baseVal[0].matrix, apart = (other.e - here.e) * direction;
    if (other.f === here.f && apart > 0 && apart < gap) { gap = apart; best = key(task, s); }
  });
  return best;
};
const nearest = (id, list) => {
  const here = box(id).transform.baseVal[0].matrix;
  const apart = ([other]) => { const p = box(other).transform.baseVal[0].matrix; return Math.abs(p.f - here.f) * 4 + Math.abs(p.e - here.e); };
  return (list || []).reduce((best, one) => best === null || apart(one) < apart(best) ? one : best, null)?.[0] ?? null;
};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const moves = {
    ArrowUp: () => nearest(at, into.get(at)), ArrowDown: () => nearest(at, from.get(at)),
    ArrowLeft: () => beside(at, -1), ArrowRight: () => beside(at, 1),
  };
  const move = moves[event.key];
  if (event.key === "/") find.focus();
  else if (event.key === "+" || event.key === "=") zoom(scale * 1.25);
  else if (event.key === "-") zoom(scale / 1.25);
  else if (event.key === "0") whole();
  else if (event.key === "Escape") choose(null);
  else if (event.key === "Enter" && event.target === view && at === null && tasks[0]?.steps.length) choose("0-0", true);
  else if (move && at !== null && event.target === view) { const to = move(); if (to !== null) choose(to, true); }
  else return;
  event.preventDefault();
});

svg.addEventListener("click", event => {
  if (moved) return;
  const hit = event.target.closest(".s");
  choose(hit ? hit.id.slice(1) : null);
});
by("in").addEventListener("click", () => zoom(scale * 1.25));
by("out").addEventListener("click", () => zoom(scale / 1.25));
by("whole").addEventListener("click", whole);
view.addEventListener("wheel", event => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(scale * Math.min(Math.max(Math.exp(-event.deltaY / 300), 0.5), 2), event.clientX, event.clientY);
}, {passive: false});

// Dragging moves the picture.
let drag = null, moved = false;
view.addEventListener("pointerdown", event => {
  moved = false;
  if (event.pointerType === "mouse" && event.button === 0) drag = [event.clientX, event.clientY, view.scrollLeft, view.scrollTop];
});
window.addEventListener("pointermove", event => {
  if (!drag) return;
  const [x, y, left, top] = drag;
  moved ||= Math.abs(event.clientX - x) + Math.abs(event.clientY - y) > 4;
  if (moved) { view.scrollLeft = left - event.clientX + x; view.scrollTop = top - event.clientY + y; }
});
window.addEventListener("pointerup", () => { drag = null; });

// A step that the address names is shown at once: page.html#step.
const named = decodeURIComponent(location.hash.slice(1));
if (named) tasks.some((task, t) => task.steps.some((step, s) => step.id === named && (choose(key(t, s), true), true)));
document.documentElement.dataset.ready = "yes";
