"""Pages of answers in a browser: steps are taken on them in two frames, and what they show is read."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--allow-file-access-from-files", "--virtual-time-budget=20000", "--window-size=1400,900",
)  # fmt: skip
"""A page may be read from another file, which looks at it; without a sandbox root may start it as well."""


@functools.cache
def why_none() -> str:
    """Why no page can be shown here, '' where one can: some systems have a stub in the browser's place."""
    if BROWSER is None:
        return "there is no Chromium on the path"
    with tempfile.TemporaryDirectory() as folder:
        words = [BROWSER, *FLAGS, f"--user-data-dir={folder}", "--dump-dom", "about:blank"]
        try:
            shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"{BROWSER} does not start: {exc}"
    return "" if "<body>" in shown.stdout else f"{BROWSER} shows no page: {shown.stderr[-300:]}"


OUTSIDE = """<!doctype html><meta charset="utf-8">
<iframe id="one" width="{width}" height="700"></iframe><iframe id="two" width="{width}" height="700"></iframe>
<script>
const frames = [...document.querySelectorAll("iframe")];
const went = (frame, go) => new Promise((done) => {{ frame.onload = () => setTimeout(done, 200); go(); }});
const open = (frame, where = "review.html") => went(frame, () => {{ frame.src = where; }});
const page = (frame) => frame.contentDocument;
const all = (frame, what) => [...page(frame).querySelectorAll(what)].filter((one) => !one.hidden);
const byId = (frame, id) => page(frame).getElementById(id);
const change = (frame, id, values) => {{
  Object.assign(byId(frame, id), values);
  byId(frame, id).dispatchEvent(new Event("change"));
}};
const key = (name) => page(one).body.dispatchEvent(
  new one.contentWindow.KeyboardEvent("keydown", {{key: name, bubbles: true, cancelable: true}}));
const soon = () => new Promise((done) => setTimeout(done, 300));
(async () => {{
  let told;
  try {{
    told = await (async () => {{ const [one, two] = frames; {steps} }})();
  }} catch (error) {{
    told = String(error);
  }}
  for (const frame of frames) frame.remove();
  document.body.innerHTML = "<pre></pre>";
  document.body.firstChild.textContent = JSON.stringify(told);
}})();
</script>
"""


EVERY = "SELECT tracks WHERE entity LIKE '%' AND score >= 0 ORDER BY score DESC, track_id, entity"


@pytest.fixture
def browsed(run, asked: Path):
    """Writes a page and takes steps in JavaScript on it, in frames `one` and `two`; what they return."""
    if reason := why_none():
        pytest.skip(reason)

    def steps_on(steps: str, width: int = 900, sql: str = EVERY):
        done = run("query", sql, "--page", "review.html")
        assert done.status == 0, done.err
        (asked / "away.html").write_text("<!doctype html><title>away</title>", encoding="utf-8")
        outside = asked / "outside.html"
        outside.write_text(OUTSIDE.format(width=width, steps=steps), encoding="utf-8")
        words = [str(BROWSER), *FLAGS, f"--user-data-dir={asked / 'profile'}", "--dump-dom", outside.as_uri()]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        (told,) = re.findall("<body><pre>(.*)</pre></body>", shown.stdout) or [f"no answer: {shown.stderr}"]
        return json.loads(html.unescape(told))

    return steps_on


@pytest.mark.parametrize("width", [320, 360, 720, 1280])
def test_nothing_reaches_beyond_the_width_of_the_screen(run, browsed, width):
    assert run("rename", "red", "the-red-one-with-the-white-stripe-" * 3).status == 0
    told = browsed(
        """
        await open(one);
        return [one.contentWindow.innerWidth, page(one).documentElement.scrollWidth,
                ...all(one, ".bar label").map((label) => label.getBoundingClientRect().right)];
        """,
        width,
    )
    room, *reached = told
    assert len(reached) == 6 and max(reached) <= room <= width, told


def test_what_the_browser_restores_of_filters_and_switches_is_done(browsed):
    """Back on the page, the switch said `most doubtful first` and the hits stood in the answer's order."""
    before, after, plain = browsed(
        """
        const state = () => [byId(one, "doubtful").checked, byId(one, "boxes").checked,
          byId(one, "bands").value, byId(one, "tiles").classList.contains("boxless"),
          all(one, ".tile").map((it) => it.id)];
        await open(one);
        const plain = state();
        change(one, "doubtful", {checked: true});
        change(one, "boxes", {checked: false});
        change(one, "bands", {value: "rejected"});
        const before = state();
        await open(one, "away.html");
        await went(one, () => one.contentWindow.history.back());
        return [before, state(), plain];
        """
    )
    assert before[:4] == [True, False, "rejected", True] and before[4] != plain[4]
    # A browser that restores nothing shows what the page is without: never one beside the other.
    assert after in (before, plain)


def test_marks_made_in_one_window_are_not_lost_by_those_made_in_another(browsed):
    told = browsed(
        """
        const press = (frame, at, say) => all(frame, ".tile")[at].querySelector(`[data-say=${say}]`).click();
        const counted = (frame) => byId(frame, "count").textContent;
        await open(one); await open(two);
        press(one, 0, "yes"); await soon();
        const seen = counted(two);
        press(two, 1, "no"); await soon();
        const both = [counted(one), counted(two)];
        await went(one, () => one.contentWindow.location.reload());
        const kept = counted(one);
        byId(one, "clear").click(); await soon();
        return [seen, ...both, kept, counted(two)];
        """
    )
    seen, first, second, kept, cleared = ([int(word) for word in re.findall(r"\d+", one)] for one in told)
    assert seen[:2] == [1, 0]
    assert first == second == kept and kept[:2] == [1, 1]
    assert cleared[:2] == [0, 0]


@pytest.mark.parametrize("undo", ['key("u")', 'byId(one, "restore").click()'])
def test_marks_that_were_all_taken_back_come_back_by_undoing_that(browsed, undo):
    """They were gone, from what the browser keeps and from other windows, too."""
    told = browsed(
        f"const undo = () => {undo};"
        """
        const counted = (frame) => byId(frame, "count").textContent;
        const offered = () => !byId(one, "restore").hidden && byId(one, "restore").textContent;
        const press = (at, say) => all(one, ".tile")[at].querySelector(`[data-say=${say}]`).click();
        const pressed = () => all(one, ".tile").map((tile) =>
          [...tile.querySelectorAll("[aria-pressed=true]")].map((it) => it.dataset.say).join());
        await open(one); await open(two);
        press(0, "yes"); press(1, "no"); press(2, "yes"); press(2, "no");
        const before = [counted(one), pressed(), offered()];
        byId(one, "clear").click(); await soon();
        const cleared = [counted(one), counted(two), offered()];
        undo(); await soon();
        const after = [counted(one), pressed(), offered()];
        const other = counted(two);
        key("u"); await soon(); // the step before
        return [before, cleared, after, other, pressed()];
        """
    )
    before, cleared, after, other, stepped = told
    assert before[0].startswith("1 yes, 2 no, ") and before[1][:3] == ["yes", "no", "no"] and not before[2]
    assert cleared[0] == cleared[1] and cleared[0].startswith("0 yes, 0 no, ")
    assert cleared[2] == "Bring back all 3 marks (u)"
    assert after == before and other == before[0]
    assert stepped[:3] == ["yes", "no", "yes"]


def test_where_nothing_was_done_nothing_is_undone(browsed):
    """Behind a reload it took the mark of the first tile, which had been made long before."""
    marked, reloaded, kept, undone = browsed(
        """
        const counted = () => byId(one, "count").textContent;
        await open(one);
        all(one, ".tile")[0].querySelector("[data-say=yes]").click(); await soon();
        const marked = counted();
        await went(one, () => one.contentWindow.location.reload());
        const reloaded = counted();
        key("u"); await soon();
        const kept = counted();
        all(one, ".tile")[1].querySelector("[data-say=no]").click();
        key("u"); key("u"); await soon();
        return [marked, reloaded, kept, counted()];
        """
    )
    assert marked.startswith("1 yes, 0 no, ") and marked == reloaded == kept == undone


def test_keys_mark_on_keyboards_without_latin_letters(browsed):
    """On a Russian or Greek keyboard no key said yes, no or undo, and nothing told why."""
    told = browsed(
        """
        const press = (name, code) => page(one).activeElement.dispatchEvent(
          new one.contentWindow.KeyboardEvent("keydown", {key: name, code, bubbles: true, cancelable: true}));
        const counted = () => byId(one, "count").textContent;
        await open(one);
        all(one, ".tile")[0].focus();
        const counts = [];
        for (const [name, code] of [["н", "KeyY"], ["ν", "KeyN"], ["г", "KeyU"],
          ["ü", "BracketLeft"], ["y", "KeyZ"]]) {
          press(name, code);
          counts.push(counted());
        }
        return counts;
        """
    )
    assert [[int(word) for word in re.findall(r"\d+", one)][:2] for one in told] == [
        [1, 0], [1, 1], [1, 0], [1, 0], [2, 0]
    ]  # fmt: skip


def test_escape_ends_a_large_picture_from_wherever_the_keyboard_is(browsed):
    """It did so on the picture itself alone: after an arrow key it stayed large."""
    told = browsed(
        """
        const large = () => all(one, ".tile.large").length;
        await open(one);
        all(one, ".tile .frame")[0].click();
        const seen = [large()];
        key("ArrowRight");
        seen.push(large());
        key("Escape");
        seen.push(large());
        return seen;
        """
    )
    assert told == [1, 1, 0]


def test_what_is_marked_has_a_check_mark_beside_its_colour(browsed):
    """Colours alone told it, and where the system sets them, as for high contrast, nothing did."""
    told = browsed(
        """
        await open(one);
        all(one, ".tile")[0].querySelector("[data-say=yes]").click();
        all(one, ".tile")[1].querySelector("[data-say=no]").click();
        for (const rule of page(one).styleSheets[0].cssRules) {
          if (rule.media && rule.media.mediaText.includes("forced-colors")) rule.media.mediaText = "screen";
        }
        const style = (it, pseudo) => one.contentWindow.getComputedStyle(it, pseudo);
        return all(one, ".tile").slice(0, 3).map((tile) => [
          [...tile.querySelectorAll("button")].map((it) => style(it, "::before").content.includes("\u2713")),
          [...tile.querySelectorAll("button")].map((it) => style(it).backgroundColor),
          [...tile.querySelectorAll("button")].map((it) => style(it).forcedColorAdjust),
          style(tile).borderTopStyle, style(tile).borderTopWidth]);
        """
    )
    yes, no, neither = told
    assert [yes[0], no[0], neither[0]] == [[True, False], [False, True], [False, False]]
    # As the system has it: what is chosen.
    chosen, plain = yes[1]
    assert no[1] == [plain, chosen] and neither[1] == [plain, plain] and chosen != plain
    # Adjusted, the word had a plate of its own colour behind it.
    assert yes[2] == ["none", "auto"] and no[2] == ["auto", "none"]
    assert [yes[3:], no[3:], neither[3:]] == [["solid", "4px"], ["dashed", "4px"], ["solid", "1px"]]


def test_on_paper_what_was_said_stays_as_a_word(browsed):
    """The rules for paper are taken for those of the screen: headless browsers print to files only."""
    told = browsed(
        """
        await open(one);
        all(one, ".tile")[0].querySelector("[data-say=yes]").click();
        all(one, ".tile")[1].querySelector("[data-say=no]").click();
        for (const rule of page(one).styleSheets[0].cssRules) {
          if (rule.media && rule.media.mediaText === "print") rule.media.mediaText = "screen";
        }
        return all(one, ".tile").slice(0, 3).map((tile) =>
          [...tile.querySelectorAll("button")].filter((it) => it.offsetHeight).map((it) => it.textContent));
        """
    )
    assert told == [["Yes"], ["No"], []]


def test_a_page_without_names_has_the_field_for_one_above_its_hits_before_anything_is_marked(browsed):
    """It stood below all hits, and came only when one was marked: nobody knew that one could name them."""
    above, fits, remark, unnamed, named = browsed(
        """
        await open(one);
        const field = byId(one, "name");
        const place = field.getBoundingClientRect();
        const above = place.height > 0 && place.bottom <= byId(one, "tiles").getBoundingClientRect().top;
        const fits = place.right <= one.contentWindow.innerWidth;
        const remark = page(one).querySelector(".top .remark").textContent;
        all(one, ".tile")[0].querySelector(".say-yes").click();
        const unnamed = [byId(one, "nothing").hidden, byId(one, "nothing").textContent];
        field.value = "my van";
        field.dispatchEvent(new Event("input"));
        return [above, fits, remark, unnamed, byId(one, "commands").textContent];
        """,
        sql="SELECT tracks",
    )
    assert above and fits and remark.startswith("These rows name no entity.")
    assert unnamed == [False, "What is marked has no name yet: write one at the top of the hits."]
    assert re.search(r"register 'my van' --track \d+:[0-9a-f]+$", named)
