<?php

/** @var string $title @var string $body @var bool $home */

use function Demo\e;

?>
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><?= e($home ? 'Tokamak' : "$title · Tokamak") ?></title>
<link rel="icon" href="/static/torus.svg">
<style>
:root {
    --page: #f6f5f2; --card: #fff; --text: #1d1b22; --soft: #67636f; --line: #e3e0da;
    --hot: #c2361c; --glow: #f08c3a; --good: #1f7a4d; --code: #f1efe9;
}
@media (prefers-color-scheme: dark) {
    :root {
        --page: #131217; --card: #1c1b22; --text: #ecebf0; --soft: #9d99a8; --line: #302e38;
        --hot: #ff8a5c; --glow: #ffb25c; --good: #5ed39a; --code: #26242d;
    }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem }
header { display: flex; flex-wrap: wrap; align-items: center; gap: .8rem; padding-top: 2.2rem; padding-bottom: 1.4rem }
header a { color: inherit; text-decoration: none; font-weight: 650; font-size: 1.05rem; letter-spacing: .01em }
header nav { margin-left: auto; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .92rem }
header nav a { white-space: nowrap }
header nav a { font-weight: 400; font-size: inherit; color: var(--soft) }
header nav a:hover, a:hover { text-decoration: underline }
a { color: var(--hot); text-decoration: none }
h1 { font-size: clamp(1.9rem, 5vw, 2.9rem); line-height: 1.12; letter-spacing: -.025em; margin: .6rem 0 .5rem; text-wrap: balance }
h2 { font-size: 1.1rem; margin: 0 0 .7rem }
.lead { color: var(--soft); max-width: 44rem; margin: 0 0 1.8rem; font-size: 1.06rem }
.facts, .links { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16.5rem), 1fr)); margin: 0 0 1.2rem; padding: 0; list-style: none }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.1rem 1.25rem }
section.card { margin-bottom: 1.2rem; padding: 1.3rem 1.4rem 1.4rem }
.facts dt, .small { color: var(--soft); font-size: .82rem }
.facts dd { margin: .1rem 0 0; font-size: 1.28rem; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
.facts dd small { display: block; font-weight: 400; font-size: .82rem; color: var(--soft); line-height: 1.4 }
.links a { display: block; height: 100%; color: inherit }
.links a:hover { border-color: var(--hot); text-decoration: none }
.links strong { display: block; margin-bottom: .15rem }
.links strong::after { content: " →"; color: var(--hot) }
.links span { color: var(--soft); font-size: .9rem; line-height: 1.45; display: block }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { text-align: left; padding: .42rem .8rem .42rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere }
tr:last-child > * { border-bottom: 0 }
th { font-weight: 500; color: var(--soft); white-space: nowrap }
td.n, .n { font-variant-numeric: tabular-nums }
code, pre, td.c { font-family: ui-monospace, "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace; font-size: .88em }
code { background: var(--code); padding: .1em .35em; border-radius: .3em }
pre { background: var(--code); border-radius: .6rem; padding: .9rem 1rem; overflow-x: auto; margin: .6rem 0 0 }
label { display: block; margin-bottom: .9rem; font-size: .92rem; color: var(--soft) }
input[type=text], input[type=file], textarea { display: block; width: 100%; margin-top: .25rem; padding: .55rem .7rem; font: inherit; color: var(--text); background: var(--page); border: 1px solid var(--line); border-radius: .5rem }
button { font: inherit; font-weight: 600; padding: .5rem 1.1rem; border-radius: .5rem; border: 0; background: var(--hot); color: var(--card); cursor: pointer }
button.quiet { background: transparent; color: var(--text); border: 1px solid var(--line); font-weight: 400 }
:focus-visible { outline: 2px solid var(--glow); outline-offset: 2px }
.timing { display: flex; flex-wrap: wrap; gap: .4rem 2.2rem; margin: 0 0 .9rem }
.timing div { min-width: 6.5rem }
.timing b { display: block; font-size: 1.7rem; letter-spacing: -.02em; font-variant-numeric: tabular-nums }
.bars { display: flex; align-items: flex-end; gap: 2px; height: 4.5rem; border-bottom: 1px solid var(--line); margin-bottom: .8rem }
.bars i { flex: 1; min-height: 1px; background: linear-gradient(to top, var(--hot), var(--glow)); border-radius: 2px 2px 0 0 }
.big { font-size: 4rem; font-weight: 700; letter-spacing: -.04em; line-height: 1; margin: .2rem 0 1rem; font-variant-numeric: tabular-nums }
.row { display: flex; gap: .7rem; flex-wrap: wrap; align-items: center }
footer { color: var(--soft); font-size: .85rem; padding-top: 1rem; padding-bottom: 2.5rem }
</style>
</head>
<body>
<header>
    <img src="/static/torus.svg" width="38" height="38" alt="">
    <a href="/">Tokamak</a>
    <nav>
<?php foreach (Demo\ROUTES as $href => [, $name, , $listed]): if ($listed): ?>
        <a href="<?= e($href) ?>"><?= e($name) ?></a>
<?php endif; endforeach ?>
    </nav>
</header>
<main>
<?= $body ?>
</main>
<footer>
    Made by PHP <?= e(PHP_VERSION) ?> in process <?= e(getmypid()) ?>,
    <?= e(number_format((microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) * 1000, 2)) ?> ms after the request came in.
</footer>
</body>
</html>
