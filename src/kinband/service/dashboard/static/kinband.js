// What pages have beyond HTML: the choice of theme, live updates, readings under the pointer, zoom, ticking all.
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

  var waiting = 0;
  function look() {
    if (document.hidden) { waiting = setTimeout(look, EVERY); return; }
    clearTimeout(waiting);
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
      .finally(function () {
        clearTimeout(waiting);
        if (live) waiting = setTimeout(look, EVERY * Math.min(1 + failures, 8));
      });
  }

  // Another address of the same page: its parts are put in place, and the reader stays where he is.
  var live = false;
  function stay(address) {
    history.replaceState(null, "", address);
    etag = "";
    look();
  }
  function addressed(values) {
    var address = new URL(location.href);
    Object.keys(values).forEach(function (key) {
      if (values[key] === "") address.searchParams.delete(key); else address.searchParams.set(key, values[key]);
    });
    return address;
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

  // Zoom: dragging across a chart sets the time range of the page.
  function zoomable(chart) {
    var data = chart.dataset, first = Date.parse(data.first), long = Number(data.long), from = null, shade = null;
    if (!(long > 0)) return;
    function share(event) {
      var box = chart.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    }
    function done() {
      if (shade) shade.remove();
      shade = from = null;
    }
    chart.addEventListener("pointerdown", function (event) {
      if (event.button || event.target.closest("a")) return;
      from = { share: share(event), x: event.clientX };
      chart.setPointerCapture(event.pointerId);
    });
    chart.addEventListener("pointermove", function (event) {
      if (!from || Math.abs(event.clientX - from.x) < 6) return;
      if (!shade) {
        shade = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        shade.setAttribute("class", "shade");
        shade.setAttribute("height", String(chart.getBoundingClientRect().height - 22));
        chart.appendChild(shade);
      }
      var to = share(event);
      shade.setAttribute("x", 100 * Math.min(from.share, to) + "%");
      shade.setAttribute("width", 100 * Math.abs(to - from.share) + "%");
    });
    chart.addEventListener("pointercancel", done);
    chart.addEventListener("pointerup", function (event) {
      var to = share(event), wanted = shade && from;
      if (wanted) {
        var ends = [from.share, to].sort(function (a, b) { return a - b; }).map(function (part) {
          return new Date(first + 1000 * long * part).toISOString().slice(0, 16);
        });
        location.assign(addressed({ range: "", since: ends[0], until: ends[1] }));
      }
      done();
    });
  }

  // The map: dragging moves it, a double click or turning the wheel with Ctrl goes closer; its names come with the page.
  function movable(map) {
    var whole = map.dataset.size.split(" ").map(Number), closest = 32;
    var box = map.getAttribute("viewBox").split(" ").map(Number), from = null, moved = false, settling = 0;
    function put() {
      box[2] = Math.min(box[2], whole[0]);
      box[3] = box[2] * whole[1] / whole[0];
      box[0] = Math.min(Math.max(box[0], 0), whole[0] - box[2]);
      box[1] = Math.min(Math.max(box[1], 0), whole[1] - box[3]);
      map.setAttribute("viewBox", box.join(" "));
      map.nextElementSibling.style.visibility = "hidden";
    }
    function settle() {
      clearTimeout(settling);
      settling = setTimeout(function () {
        var zoom = Math.round(whole[0] / box[2]);
        stay(addressed(zoom < 2 ? { zoom: "", x: "", y: "", at: "" } : {
          zoom: String(zoom), x: ((box[0] + box[2] / 2) / whole[0]).toFixed(3),
          y: ((box[1] + box[3] / 2) / whole[1]).toFixed(3), at: ""
        }));
      }, 250);
    }
    function closer(event, by) {
      var place = map.getBoundingClientRect(), x = (event.clientX - place.left) / place.width;
      var y = (event.clientY - place.top) / place.height, wide = whole[0] / box[2];
      var next = Math.min(Math.max(wide * by, 1), closest), middle = [box[0] + x * box[2], box[1] + y * box[3]];
      box[2] = whole[0] / next;
      box[3] = whole[1] / next;
      box[0] = middle[0] - x * box[2];
      box[1] = middle[1] - y * box[3];
      put();
      settle();
    }
    map.addEventListener("wheel", function (event) {
      if (!event.ctrlKey && !event.metaKey) return;  // else the page scrolls
      event.preventDefault();
      closer(event, event.deltaY < 0 ? 2 : 0.5);
    }, { passive: false });
    map.addEventListener("dblclick", function (event) { event.preventDefault(); closer(event, 2); });
    map.addEventListener("dragstart", function (event) { event.preventDefault(); });
    map.addEventListener("pointerdown", function (event) {
      moved = false;
      if (event.button || event.pointerType === "touch" || box[2] >= whole[0]) return;
      from = { x: event.clientX, y: event.clientY, box: box.slice() };
    });
    map.addEventListener("pointermove", function (event) {
      if (!from) return;
      var place = map.getBoundingClientRect(), dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!moved && Math.abs(dx) + Math.abs(dy) < 6) return;
      if (!moved) map.setPointerCapture(event.pointerId);
      moved = true;
      map.classList.add("moving");
      box[0] = from.box[0] - dx / place.width * box[2];
      box[1] = from.box[1] - dy / place.height * box[3];
      put();
    });
    function dropped() {
      if (from && moved) settle();
      from = null;
      map.classList.remove("moving");
    }
    map.addEventListener("pointerup", dropped);
    map.addEventListener("pointercancel", dropped);
    map.addEventListener("click", function (event) { if (moved) event.preventDefault(); }, true);
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
    function pair(event) {
      var box = heat.getBoundingClientRect(), unit = (edge + side) / box.width;
      var column = Math.floor(((event.clientX - box.left) * unit - edge) / side * rows);
      var row = Math.floor(((event.clientY - box.top) * unit - edge) / side * rows);
      return row < 0 || column < 0 || row >= rows || column >= rows ? null : [row, column];
    }
    heat.addEventListener("pointermove", function (event) {
      if (!known) fetched();
      var at = pair(event);
      if (!known || !known.shades || !at) return say([], event);
      var shade = known.shades.charCodeAt(at[0] * rows + at[1]) / 255;
      var value = known.low + shade * (known.high - known.low);
      say([known.stations[at[0]], known.stations[at[1]], "alike " + value.toFixed(2), "click: " + known.stations[at[0]]],
        event);
    });
    heat.addEventListener("pointerleave", function (event) { say([], event); });
    heat.addEventListener("click", function (event) {
      var at = pair(event);
      if (known && known.links && at && !event.target.closest("a")) location.assign(known.links[at[0]]);
    });
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
    part.querySelectorAll("svg.plot[data-first]").forEach(zoomable);
    part.querySelectorAll("svg.map[data-size]").forEach(movable);
    part.querySelectorAll("svg.heat[data-values]").forEach(comparable);
    ticking(part);
  }

  document.addEventListener("DOMContentLoaded", function () {
    if (window.matchMedia("(max-width: 640px)").matches) {  // a phone has no room for what may be wanted
      document.querySelectorAll("details.tuck:not([data-given])").forEach(function (details) { details.open = false; });
    }
    var button = document.querySelector("[data-theme-toggle]");
    if (button) toggle(button);
    enliven(document);
    document.addEventListener("click", function (event) {
      var link = event.target.closest && event.target.closest("a[data-stay]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      stay(link.href.split("#")[0]);
    });
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
    live = Boolean(etag);
    if (live) waiting = setTimeout(look, EVERY);
  });
})();
