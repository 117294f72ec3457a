"""How the page looks: one column that reads on a laptop and on a phone, in light and in dark. Nothing is loaded."""

from string import Template

CSS = """
:root { color-scheme: light dark; --ink: #1c2733; --faint: #5b6875; --line: #dde3e8; --paper: #ffffff; --page: #f3f5f7;
  --accent: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf0; --faint: #a3afba; --line: #36424d; --paper: #1b232b; --page: #12181e; --accent: #f08a3c; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 0 0 8px; }
p { margin: 0 0 12px; }
.sub { color: var(--faint); margin-bottom: 20px; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px;
  margin: 18px 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--accent);
  font-variant-numeric: tabular-nums; }
.tile small { display: block; color: var(--faint); font-size: 0.82rem; line-height: 1.4; }
.verdict { border-left: 4px solid var(--accent); padding-left: 12px; font-weight: 500; }
table { margin: 8px 0 12px; border-collapse: collapse; width: 100%; font-size: 0.9rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 7px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--faint); font-weight: 600; font-size: 0.8rem; vertical-align: bottom; }
td small { display: block; color: var(--faint); font-size: 0.78rem; white-space: nowrap; }
tr.ours td:first-child { font-weight: 600; }
tr.yardstick td { color: var(--faint); }
figure { margin: 12px 0 4px; }
figcaption, .note { color: var(--faint); font-size: 0.87rem; }
svg { display: block; width: 100%; height: auto; }
.narrow { display: none; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 22px; align-items: start; }
.single { max-width: 480px; }
.swatch { display: inline-block; width: 0.85em; height: 0.85em; border-radius: 2px; margin-right: 6px;
  vertical-align: -0.08em; }
dt { font-weight: 600; margin-top: 10px; }
dd { margin: 0; color: var(--faint); }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 0.9em; overflow-wrap: anywhere; }
ul { padding-left: 20px; margin: 0; }
li { margin: 4px 0; }
@media (max-width: 640px) {
  main { padding: 18px 12px 40px; }
  section { padding: 16px 14px; }
  h1 { font-size: 1.4rem; }
  .wide { display: none; }
  .narrow { display: block; }
  .pair { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile { padding: 10px 12px; }
  .tile b { font-size: 1.35rem; }
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: 8px 0; }
  td { display: flex; justify-content: space-between; gap: 16px; border: 0; padding: 2px 0; }
  td::before { content: attr(data-head); color: var(--faint); font-size: 0.82rem; text-align: left; }
  td:first-child { font-weight: 600; }
  td:first-child::before { content: none; }
}
"""

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="kinband $version">
<title>$title</title>
<style>$css</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="sub">$subtitle</p>
$body
</main>
</body>
</html>
""")
