"""The style sheet, which is part of the page."""

CSS = """
:root{color-scheme:light dark;--bg:#f6f6f3;--card:#fff;--ink:#1b1d21;--soft:#5b616b;--line:#e1e1dc;
--mark:#f0efe9;--blue:#2c57c9;--teal:#0a7069;--plum:#6d52a3;--rust:#9a5410;--green:#1a7640;
--red:#b92d26;--amber:#8a5c00}
@media(prefers-color-scheme:dark){:root{--bg:#131417;--card:#1b1d21;--ink:#e7e8ea;--soft:#9aa1ac;
--line:#2d3036;--mark:#23262b;--blue:#8fb0ff;--teal:#5cc9c0;--plum:#bda5ee;--rust:#e5a266;
--green:#62c98a;--red:#ff8d84;--amber:#e3b54a}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",
Roboto,"Helvetica Neue",sans-serif}
main,header,footer{max-width:62rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
a{color:inherit;text-decoration-color:var(--line);text-underline-offset:.2em}
a:hover{text-decoration-color:currentColor}
:focus-visible{outline:2px solid var(--blue);outline-offset:2px;border-radius:3px}
.over{color:var(--soft);font-size:.8125rem;letter-spacing:.06em;text-transform:uppercase;margin:0}
h1{font-size:clamp(1.4rem,4.5vw,2.1rem);line-height:1.2;margin:.35rem 0 .4rem;font-weight:650;
letter-spacing:-.015em;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:2.5rem 0 .5rem}.below h2{margin:.3rem 0 .5rem}.below dl{margin-bottom:1rem}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
font-size:.8125rem}
.run{color:var(--soft);overflow-wrap:anywhere;margin:0}
.pill{display:inline-block;border:1px solid currentColor;border-radius:99px;padding:.02rem .6rem;
font-size:.8125rem;font-weight:600;white-space:nowrap}
.done,.ok{color:var(--green)}.failed,.bad,.error{color:var(--red)}.waiting,.warning,.lost{color:var(--amber)}
.working{color:var(--blue)}.info,.soft{color:var(--soft)}
dl{display:flex;flex-wrap:wrap;gap:1px;background:var(--line);border:1px solid var(--line);
border-radius:10px;overflow:hidden;margin:1.4rem 0 0}
dl div{background:var(--card);padding:.6rem .85rem;flex:1 1 8rem}
dt{color:var(--soft);font-size:.75rem}
dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
dd small{font-weight:400;color:var(--soft)}
.proof{font-size:.8125rem;color:var(--soft);margin:.8rem 0 0;overflow-wrap:anywhere}
main{padding-bottom:3rem}
article{display:grid;grid-template-columns:6.2rem minmax(0,1fr);gap:0 1rem;padding:.55rem 0;
border-top:1px solid var(--line);scroll-margin-top:.5rem}
article:target{background:var(--mark);box-shadow:0 0 0 .6rem var(--mark);border-radius:2px}
.when{font-size:.75rem;color:var(--soft);font-variant-numeric:tabular-nums;padding-top:.22rem}
.when a{display:block;text-decoration:none}
.when a:hover{text-decoration:underline}
.fact{margin:0}.fact+.fact,.fact+details.raw{margin-top:.45rem}.fact+details{margin-top:.1rem}
.who{font-size:.8125rem;font-weight:650}
.who small{font-weight:400;color:var(--soft);margin-left:.4rem}
.text{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;margin:.1rem 0 0}
.said{border-left:3px solid var(--blue);padding-left:.8rem}
.said.user{border-color:var(--teal)}.user .who{color:var(--teal)}.assistant .who{color:var(--blue)}
.said.thought,.said.belief{border-color:var(--plum)}.thought .who,.belief .who{color:var(--plum)}
.thought .text{color:var(--soft);font-style:italic}
.said.system,.said.world,.said.note{border-color:var(--line)}
.card{background:var(--card);border:1px solid var(--line);border-radius:9px;padding:.55rem .8rem}
.card>.who{display:flex;flex-wrap:wrap;gap:.15rem .55rem;align-items:baseline}
.tool .name{color:var(--rust);overflow-wrap:anywhere}
.ask{border-color:var(--amber)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--mark);border-radius:6px;padding:.5rem .65rem;
margin:.35rem 0 0;max-height:26rem;overflow:auto;unicode-bidi:isolate}
details summary{cursor:pointer;color:var(--soft);font-size:.8125rem;margin-top:.3rem}
details.raw summary{font-size:.6875rem;opacity:.75;margin-top:.15rem}details.raw summary:hover{opacity:1}
.small{font-size:.875rem;color:var(--soft);overflow-wrap:anywhere}
.card .small{margin:.25rem 0 0}
.small b{color:var(--ink);font-weight:600}
.found{font-size:.8125rem;margin:.3rem 0 0;overflow-wrap:anywhere}
.edge{font-weight:650}
section.below{margin-top:2.5rem;padding-top:1rem;border-top:3px solid var(--line)}
ul.list{padding:0;list-style:none;margin:.4rem 0}
ul.list li{padding:.2rem 0;font-size:.875rem;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.8125rem;padding-bottom:2.5rem}
@media(max-width:40rem){header{padding-top:1.5rem}main,header,footer{padding-left:.9rem;padding-right:.9rem}
article{grid-template-columns:minmax(0,1fr);gap:.15rem}.when{display:flex;gap:.7rem;padding:0}
dl div{flex-basis:40%}}
@media print{body{background:#fff;color:#000}pre{max-height:none}article{break-inside:avoid-page}}
@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
.falls{overflow-x:auto;border:1px solid var(--line);border-radius:10px;background:var(--card)}
.falls table{width:100%;border-collapse:collapse;font-size:.8125rem}
.falls th{color:var(--soft);font-weight:400;text-align:left;padding:.4rem .7rem;
border-bottom:1px solid var(--line)}
.falls td{padding:.1rem .7rem;white-space:nowrap;max-width:22rem;overflow:hidden;text-overflow:ellipsis}
.falls .num{text-align:right;font-variant-numeric:tabular-nums}
.falls .bar{width:45%;min-width:14rem}.falls svg{display:block;width:100%;height:1rem}
.falls rect{fill:var(--soft)}.falls .model{fill:var(--blue)}.falls .tool{fill:var(--teal)}
.falls .sub-run{fill:var(--plum)}
.falls .wait{fill:var(--amber)}.falls .failed{fill:var(--red)}.falls .path{fill:var(--ink)}
.falls b.failed{color:var(--red)}.falls .deep1{padding-left:1.5rem}.falls .deep2{padding-left:2.4rem}
.falls .deep3{padding-left:3.3rem}.falls .deep4{padding-left:4.2rem}
"""
