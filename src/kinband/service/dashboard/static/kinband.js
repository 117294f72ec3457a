// What pages have beyond HTML: the choice of theme, live updates, readings under the pointer, ticking all.
// Every page works without it. No library, no state but the theme.
(function () {
  "use strict";

  // Theme: what the system prefers, unless the reader chose; set before anything is painted.
  var root = document.documentElement;
  var THEMES = ["system", "light", "dark"];
  function theme() {
    try { return localStorage.getItem("kinband-theme") || "system"; } catch (e) { return "system"; }
  }
  function wear(name) {
    if (name === "system") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name);
  }
  wear(theme());

  function toggle(button) {
    function label() {
      var look = { system: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme()].split(" ");
      button.firstElementChild.textContent = look[0];
      button.lastElementChild.textContent = " " + look[1];  // a phone shows the sign alone
      button.setAttribute("aria-label", "Theme: " + theme() + ". Press to change.");
    }
    button.hidden = false;
    label();
    button.addEventListener("click", function () {
      var next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
      try { localStorage.setItem("kinband-theme", next); } catch (e) { /* not remembered, then */ }
      wear(next);
      label();
    });
  }

  // Live: every few seconds, while somebody looks, the page is asked for again with its ETag; parts that changed are
  // put in place. What is focused, ticked, opened, scrolled or selected stays so.
  var EVERY = 4000, etag = "", failures = 0;

  function busy(part) {
    var chosen = window.getSelection && window.getSelection();
    if (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode)) return true;
    var active = document.activeElement;
    return part.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) && active.type !== "checkbox";
  }

  function sign(element) {  // finds an element again in the new part
    if (element.id && element.tagName !== "INPUT") return "#" + CSS.escape(element.id);
    var name = element.tagName.toLowerCase();
    ["name", "value", "href", "formaction"].forEach(function (key) {
      if (element.hasAttribute(key)) name += "[" + key + "=\"" + CSS.escape(element.getAttribute(key)) + "\"]";
    });
    return name;
  }

  function renew(part, fresh) {
    if (part.innerHTML === fresh.innerHTML || busy(part)) return;
    var active = part.contains(document.activeElement) ? sign(document.activeElement) : "";
    var ticked = Array.prototype.map.call(part.querySelectorAll("input[type=checkbox]:checked"), sign);
    var opened = Array.prototype.map.call(part.querySelectorAll("details[open][id]"), sign);
    var scrolled = Array.prototype.map.call(part.querySelectorAll(".scroll"), function (box) { return box.scrollLeft; });
    part.replaceChildren.apply(part, Array.prototype.slice.call(document.importNode(fresh, true).childNodes));
    function each(signs, what) {
      signs.forEach(function (one) { var found = part.querySelector(one); if (found) what(found); });
    }
    each(ticked, function (box) { box.checked = true; });
    each(opened, function (details) { details.open = true; });
    part.querySelectorAll(".scroll").forEach(function (box, i) { if (scrolled[i]) box.scrollLeft = scrolled[i]; });
    if (active) each([active], function (element) { element.focus({ preventScroll: true }); });
    enliven(part);
  }

  function look() {
    if (document.hidden) return;
    fetch(location.href, { headers: { "If-None-Match": etag }, credentials: "same-origin", redirect: "manual" })
      .then(function (answer) {
        if (answer.status === 304) { failures = 0; return null; }
        if (answer.type === "opaqueredirect") { location.reload(); return null; }  // the session has ended
        if (!answer.ok) throw new Error(String(answer.status));
        failures = 0;
        etag = answer.headers.get("ETag") || "";
        return answer.text();
      })
      .then(function (text) {
        if (!text) return;
        var fresh = new DOMParser().parseFromString(text, "text/html");
        document.querySelectorAll("[data-live]").forEach(function (part) {
          var other = fresh.querySelector("[data-live=\"" + part.getAttribute("data-live") + "\"]");
          if (other) renew(part, other);
        });
      })
      .catch(function () { failures += 1; })
      .finally(function () { setTimeout(look, EVERY * Math.min(1 + failures, 8)); });
  }

  // Readings: the values of a chart at the pointer, the pair of stations of a heat map.
  var bubble = null;
  function say(lines, event) {
    if (!bubble) {
      bubble = document.createElement("div");
      bubble.className = "reading";
      bubble.setAttribute("aria-hidden", "true");
      document.body.appendChild(bubble);
    }
    bubble.hidden = !lines.length;
    if (!lines.length) return;
    bubble.replaceChildren.apply(bubble, lines.map(function (line) {
      var row = document.createElement("div");
      row.textContent = line;
      return row;
    }));
    var wide = bubble.offsetWidth, x = event.clientX + 14;
    if (x + wide > root.clientWidth - 4) x = Math.max(4, event.clientX - wide - 14);
    // Positions are set through the object model, which the page's policy allows, unlike style attributes.
    bubble.style.left = x + window.scrollX + "px";
    bubble.style.top = event.clientY + window.scrollY + 14 + "px";
  }

  function two(number) { return (number < 10 ? "0" : "") + number; }
  function moment(ms) {
    var at = new Date(ms);
    var months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
    return at.getUTCDate() + " " + months[at.getUTCMonth()] + " " + two(at.getUTCHours()) + ":" + two(at.getUTCMinutes()) +
      " UTC";
  }

  function readable(chart) {
    var data = chart.dataset, first = Date.parse(data.first), long = Number(data.long) || 1;
    var at = data.at.split(",").map(Number), names = data.names.split("|");
    var values = data.values.split("|").map(function (list) { return list.split(","); });
    var cross = null;
    chart.addEventListener("pointermove", function (event) {
      var box = chart.getBoundingClientRect();
      var wanted = (event.clientX - box.left) / box.width * long, best = 0;
      at.forEach(function (seconds, i) {
        if (data.steps === "yes" ? seconds <= wanted : Math.abs(seconds - wanted) < Math.abs(at[best] - wanted)) best = i;
      });
      if (!cross) {
        cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
        cross.setAttribute("class", "cross");
        cross.setAttribute("y1", "0");
        cross.setAttribute("y2", String(box.height - 22));
        chart.appendChild(cross);
      }
      var share = 100 * at[best] / long + "%";
      cross.setAttribute("x1", share);
      cross.setAttribute("x2", share);
      var lines = [moment(first + 1000 * at[best])];
      names.forEach(function (name, i) {
        if (values[i][best] !== "") lines.push(name + " " + values[i][best].replace("-", "−"));
      });
      say(lines, event);
    });
    chart.addEventListener("pointerleave", function (event) {
      if (cross) { cross.remove(); cross = null; }
      say([], event);
    });
  }

  function comparable(heat) {
    var data = heat.dataset, rows = Number(data.rows), edge = Number(data.edge), side = Number(data.side);
    var known = null;
    function fetched() {
      known = { shades: null };
      fetch(data.values, { credentials: "same-origin" })
        .then(function (answer) { return answer.json(); })
        .then(function (found) { known = found; known.shades = atob(found.shades); })
        .catch(function () { known = null; });
    }
    heat.addEventListener("pointermove", function (event) {
      if (!known) fetched();
      var box = heat.getBoundingClientRect(), unit = (edge + side) / box.width;
      var column = Math.floor(((event.clientX - box.left) * unit - edge) / side * rows);
      var row = Math.floor(((event.clientY - box.top) * unit - edge) / side * rows);
      if (!known || !known.shades || row < 0 || column < 0 || row >= rows || column >= rows) return say([], event);
      var shade = known.shades.charCodeAt(row * rows + column) / 255;
      var value = known.low + shade * (known.high - known.low);
      say([known.stations[row], known.stations[column], "alike " + value.toFixed(2)], event);
    });
    heat.addEventListener("pointerleave", function (event) { say([], event); });
  }

  // Ticking: one box for all, and how many are ticked.
  function ticking(part) {
    var all = part.querySelector("[data-tick-all]"), told = document.querySelector("[data-ticked]");
    if (!all) return;
    all.hidden = false;
    function boxes() { return Array.prototype.slice.call(part.querySelectorAll("input[name=id]")); }
    function count() {
      var ticked = boxes().filter(function (box) { return box.checked; }).length;
      all.checked = ticked > 0 && ticked === boxes().length;
      all.indeterminate = ticked > 0 && !all.checked;
      if (told) told.textContent = ticked ? ticked + " ticked" : "";
    }
    all.addEventListener("change", function () {
      boxes().forEach(function (box) { box.checked = all.checked; });
      count();
    });
    boxes().forEach(function (box) { box.addEventListener("change", count); });
    count();
  }

  function enliven(part) {
    part.querySelectorAll("svg.plot[data-at]").forEach(readable);
    part.querySelectorAll("svg.heat[data-values]").forEach(comparable);
    ticking(part);
  }

  document.addEventListener("DOMContentLoaded", function () {
    var button = document.querySelector("[data-theme-toggle]");
    if (button) toggle(button);
    enliven(document);
    document.addEventListener("click", function (event) {  // one menu at a time
      document.querySelectorAll("details.act[open]").forEach(function (menu) {
        if (!menu.contains(event.target)) menu.open = false;
      });
    });
    document.addEventListener("keydown", function (event) {
      if (event.key !== "Escape") return;
      document.querySelectorAll("details.act[open]").forEach(function (menu) {
        menu.open = false;
        menu.querySelector("summary").focus();
      });
    });
    etag = document.body.dataset.etag || "";
    if (etag) setTimeout(look, EVERY);
  });
})();
