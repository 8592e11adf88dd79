"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const data = JSON.parse(by("data").textContent);
  const list = by("tiles");
  const tiles = [...list.querySelectorAll(".tile")];
  const marks = new Map(); // id of a tile -> "yes" or "no"
  const undo = []; // of each step what it changed: [[id of a tile, the mark before], ...]
  let cleared = null; // the step that took back all marks
  let current = null;

  // What the browser keeps

  const KEY = `panorama-page-${data.digest}`;
  let keeps = true;

  const keep = () => {
    if (!keeps) return;
    try {
      localStorage.setItem(KEY, JSON.stringify({ marks: [...marks], name: by("name").value }));
    } catch {
      keeps = false;
      by("unkept").hidden = false;
    }
  };

  const recall = () => {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) || "{}");
      for (const [id, mark] of kept.marks || []) {
        const tile = by(id);
        if (tile && tile.dataset.kind && (mark === "yes" || mark === "no")) marks.set(id, mark);
      }
      by("name").value = kept.name || "";
    } catch {
      // What is kept is damaged, or nothing can be: the next line tells which.
    }
    keep();
  };

  // Filters and order

  const options = (select, values, words) => {
    for (const value of values) select.add(new Option(words(value), value));
  };

  const shownBy = (tile) => {
    const mark = marks.get(tile.id) || "open";
    const is = (id, value) => by(id).value === "" || by(id).value === value;
    return is("bands", tile.dataset.band || "none") && is("marks", mark)
      && (by("entities").value === "" || data.entities[by("entities").value].name === tile.dataset.entity);
  };

  const filter = () => {
    // A tile that was just marked stays until the filter is touched again.
    for (const tile of tiles) tile.hidden = !shownBy(tile);
    by("empty").hidden = tiles.some((tile) => !tile.hidden) || !tiles.length;
    if (!current || current.hidden) go(inOrder().find((tile) => !tile.hidden), false);
  };

  const inOrder = () => [...list.querySelectorAll(".tile")];

  // Nearest to the border of what is accepted first: the best of the uncertain, then the worst of the accepted.
  const RANK = { uncertain: 0, accepted: 1, rejected: 2 };
  const doubt = (a, b) => {
    const rank = (tile) => RANK[tile.dataset.band] ?? 3;
    const score = (tile) => Number(tile.dataset.score || 0) * (tile.dataset.band === "accepted" ? 1 : -1);
    return rank(a) - rank(b) || score(a) - score(b) || tiles.indexOf(a) - tiles.indexOf(b);
  };

  const order = () => {
    const sorted = by("doubtful").checked ? [...tiles].sort(doubt) : tiles;
    if (sorted.some((tile, at) => tile !== list.children[at])) {
      list.append(...sorted);
      current = null;
    }
    filter();
  };

  const boxes = () => list.classList.toggle("boxless", !by("boxes").checked);

  // Marks

  const show = (tile) => {
    const mark = marks.get(tile.id);
    tile.classList.toggle("yes", mark === "yes");
    tile.classList.toggle("no", mark === "no");
    for (const button of tile.querySelectorAll("[data-say]")) {
      button.setAttribute("aria-pressed", String(button.dataset.say === mark));
    }
  };

  const tally = () => {
    const said = [...marks.values()];
    const yes = said.filter((mark) => mark === "yes").length;
    const open = tiles.filter((tile) => tile.dataset.kind && !marks.has(tile.id)).length;
    by("count").textContent = `${yes} yes, ${said.length - yes} no, ${open} open`;
    by("clear").hidden = !said.length;
    by("restore").hidden = !cleared || undo.at(-1) !== cleared;
    keep();
    commands();
  };

  const say = (tile, mark) => {
    if (!tile || !tile.dataset.kind) return;
    undo.push([[tile.id, marks.get(tile.id)]]);
    if (mark) marks.set(tile.id, mark); else marks.delete(tile.id);
    show(tile);
    tally();
  };

  const back = () => {
    const step = undo.pop();
    if (!step) return;
    const onButton = document.activeElement === by("restore"); // which goes
    for (const [id, before] of step) {
      if (before) marks.set(id, before); else marks.delete(id);
      show(by(id));
    }
    tally();
    const changed = step.map(([id]) => by(id));
    if (changed.some((tile) => tile.hidden)) filter();
    if (onButton) by("clear").focus();
    else if (changed.length === 1 && !changed[0].hidden) go(changed[0]);
  };

  const clear = () => {
    cleared = [...marks];
    undo.push(cleared);
    marks.clear();
    tiles.forEach(show);
    tally();
    filter();
    by("restore").textContent = `Bring back ${cleared.length === 1 ? "the mark" : `all ${cleared.length} marks`} (u)`;
    by("restore").focus(); // the button that had it is gone
  };

  // Commands

  const quoted = (text) => (/^(?!=)[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

  const naming = (tile) => {
    const known = data.entities.find((entity) => entity.name === tile.dataset.entity);
    if (known && known.name) return known;
    const name = by("name").value.replace(/\p{Cc}/gu, "").trim();
    if (!name) return null;
    const head = `${data.call} register`;
    return name.startsWith("-") ? { head, tail: ` -- ${quoted(name)}` } : { head: `${head} ${quoted(name)}`, tail: "" };
  };

  const commands = () => {
    const marked = tiles.filter((tile) => marks.has(tile.id));
    const told = new Map(); // head of a command -> [tail, what it names]
    for (const mark of ["yes", "no"]) {
      for (const tile of marked) {
        const named = marks.get(tile.id) === mark && naming(tile);
        if (!named) continue;
        const head = named.head + (mark === "no" ? " --not" : "");
        if (!told.has(head + named.tail)) told.set(head + named.tail, [head, new Set(), named.tail]);
        const { kind, number, picture } = tile.dataset;
        told.get(head + named.tail)[1].add(` --${kind} ${number}:${picture}`);
      }
    }
    const lines = [...told.values()].map(([head, names, tail]) => head + [...names].join("") + tail);
    by("commands").textContent = lines.join("\n");
    by("commands-box").hidden = !lines.length;
    by("nothing").hidden = lines.length > 0;
    by("nothing").textContent = !marked.length ? "Nothing is marked yet."
      : "What is marked has no name yet: write one at the top of the hits.";
    by("copied").textContent = "";
  };

  const copy = async () => {
    const text = by("commands").textContent;
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      const selection = getSelection();
      selection.removeAllRanges();
      const range = document.createRange();
      range.selectNodeContents(by("commands"));
      selection.addRange(range);
      try {
        done = document.execCommand("copy");
      } catch {
        done = false;
      }
    }
    by("copied").textContent = done ? "Copied." : "Selected: copy it with your keyboard.";
  };

  // Moving about

  const go = (tile, focus = true) => {
    if (!tile) return;
    if (current) current.tabIndex = -1;
    current = tile;
    tile.tabIndex = 0;
    if (focus) tile.focus({ preventScroll: false });
  };

  const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

  const step = (key) => {
    const seen = inOrder().filter((tile) => !tile.hidden);
    if (!seen.length) return;
    const at = seen.indexOf(current);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: seen.length - 1 }[key];
    if (to !== undefined) return go(seen[Math.min(Math.max(to, 0), seen.length - 1)]);
    // Up and down: the nearest tile of the next row.
    const middle = (tile) => { const r = tile.getBoundingClientRect(); return [r.left + r.width / 2, r.top]; };
    const [x, y] = middle(seen[Math.max(at, 0)]);
    const down = key === "ArrowDown";
    const rows = seen.filter((tile) => (down ? middle(tile)[1] > y + 1 : middle(tile)[1] < y - 1));
    if (!rows.length) return;
    const tops = rows.map((tile) => middle(tile)[1]);
    const top = down ? Math.min(...tops) : Math.max(...tops);
    const row = rows.filter((tile) => Math.abs(middle(tile)[1] - top) < 2);
    go(row.reduce((a, b) => (Math.abs(middle(a)[0] - x) <= Math.abs(middle(b)[0] - x) ? a : b)));
  };

  const large = () => tiles.find((tile) => tile.classList.contains("large"));

  const enlarge = (tile) => {
    const was = tile.classList.contains("large");
    for (const other of tiles) other.classList.remove("large");
    tile.classList.toggle("large", !was);
    go(tile);
    tile.scrollIntoView({ block: "nearest" });
  };

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.closest("input[type=text], select, pre");
    if (typing) return;
    // Where the keyboard writes no Latin letters, the place of the key tells.
    const typed = event.key.length === 1 && event.key > "~" ? event.code.replace(/^Key/, "") : event.key;
    const key = typed.length === 1 ? typed.toLowerCase() : typed;
    const acts = key === "y" || key === "n" || MOVES.includes(key);
    if (acts && current && !current.contains(document.activeElement)) {
      go(current); // nothing is marked that is not seen to be meant
    } else if (key === "y" || key === "n") {
      say(current, key === "y" ? "yes" : "no");
      const seen = inOrder().filter((tile) => !tile.hidden);
      go(seen[seen.indexOf(current) + 1] || current);
    } else if (key === "u") {
      back();
    } else if (MOVES.includes(key)) {
      step(key);
    } else if (key === "Enter" && event.target === current) {
      enlarge(current);
    } else if (key === "Escape" && large()) {
      enlarge(large());
    } else {
      return;
    }
    event.preventDefault();
  };

  list.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    const button = event.target.closest("[data-say]");
    if (button) {
      go(tile, false);
      say(tile, marks.get(tile.id) === button.dataset.say ? null : button.dataset.say);
    } else if (event.target.closest(".frame")) {
      enlarge(tile);
    } else {
      go(tile);
    }
  });
  list.addEventListener("focusin", (event) => {
    const tile = event.target.closest(".tile");
    if (tile && tile !== current) go(tile, false);
  });
  document.addEventListener("keydown", onKey);
  for (const id of ["bands", "entities", "marks"]) by(id).addEventListener("change", filter);
  by("doubtful").addEventListener("change", order);
  by("boxes").addEventListener("change", boxes);
  by("name").addEventListener("input", () => { keep(); commands(); });
  by("copy").addEventListener("click", copy);
  by("clear").addEventListener("click", clear);
  by("restore").addEventListener("click", back);

  const bands = ["accepted", "uncertain", "rejected", "none"]
    .filter((band) => tiles.some((tile) => (tile.dataset.band || "none") === band));
  const total = (test) => tiles.filter(test).length;
  options(by("bands"), ["", ...bands], (band) => (band === "" ? "all"
    : `${band === "none" ? "not known" : band} (${total((tile) => (tile.dataset.band || "none") === band)})`));
  options(by("entities"), ["", ...data.entities.keys()], (at) => (at === "" ? "all"
    : `${data.entities[at].name || "not named"} (${total((tile) => tile.dataset.entity === data.entities[at].name)})`));
  by("bands-label").hidden = bands.length < 2;
  by("doubtful-label").hidden = !bands.some((band) => band !== "none");
  by("entities-label").hidden = data.entities.length < 2;
  by("name-label").hidden = !tiles.some((tile) => tile.dataset.kind && !tile.dataset.entity);
  list.classList.add("live");
  document.querySelector(".bar").hidden = !tiles.length;
  by("tell").hidden = !tiles.length;

  const remind = () => {
    marks.clear();
    recall();
    tiles.forEach(show);
    tally();
  };
  remind();
  filter();
  // Browsers restore switches and filters after this script has run, and tell nobody.
  addEventListener("pageshow", () => { boxes(); order(); });
  // The page may be open twice, and what each keeps is all marks.
  addEventListener("storage", (event) => { if (event.key === KEY) remind(); });
})();
