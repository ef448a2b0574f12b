<?php

/** @var array{run: Demo\Run} $with */

use Demo\Run;
use function Demo\e;
use function Demo\size;

$run = $with['run'];
$opcache = function_exists('opcache_get_status') ? @opcache_get_status(false) : false;
$limit = (string) ini_get('memory_limit');
$statistics = $opcache['opcache_statistics'] ?? null;

$facts = [
    ['PHP', PHP_VERSION, PHP_SAPI . ', ' . (PHP_ZTS ? 'thread-safe' : 'not thread-safe')],
    ['Mode', $run->value, $run === Run::Worker ? 'the code stays loaded between requests' : 'a fresh start for every request'],
    ['Worker process', getmypid(), 'reload the page: any idle worker may answer'],
    ['Served by this worker', Demo\served() ?? '–', 'requests since its process began'],
    ['Opcode cache', $statistics ? number_format((float) $statistics['opcache_hit_rate'], 1) . ' %' : 'off',
        $statistics ? $statistics['num_cached_scripts'] . ' scripts, shared by all workers' : 'every script is compiled anew'],
    ['Memory', size(memory_get_peak_usage()), 'peak of this request, ' . ($limit === '-1' ? 'no limit' : "limit $limit")],
];

?>
<h1>Your PHP runs.</h1>
<p class="lead">This page was made by a PHP script of a few lines, behind a server that took it from a folder without
any configuration. Everything on it is live.</p>

<dl class="facts">
<?php foreach ($facts as [$name, $value, $note]): ?>
    <div class="card"><dt><?= e($name) ?></dt><dd><?= e($value) ?><small><?= e($note) ?></small></dd></div>
<?php endforeach ?>
</dl>

<section class="card">
    <h2>Round trips, measured now, from here</h2>
    <div class="timing n">
        <div><span class="small">median</span><b id="median">…</b></div>
        <div><span class="small">fastest</span><b id="fastest">…</b></div>
        <div><span class="small">slowest</span><b id="slowest">…</b></div>
        <div><span class="small">in PHP, median</span><b id="inside">…</b></div>
        <div><span class="small">processes that answered</span><b id="workers">…</b></div>
    </div>
    <div class="bars" id="bars" role="img" aria-label="Time of each request"></div>
    <div class="row">
        <button id="again" type="button">Measure again</button>
        <span class="small" id="note">50 requests for <code>/api</code>, one after the other.</span>
    </div>
    <noscript><p class="small">The measurement is made by your browser and needs JavaScript.</p></noscript>
</section>

<ul class="links">
<?php foreach (Demo\ROUTES as $href => [, $name, $about, $listed]): if ($listed): ?>
    <li><a class="card" href="<?= e($href) ?>"><strong><?= e($name) ?></strong><span><?= e($about) ?></span></a></li>
<?php endif; endforeach ?>
    <li><a class="card" href="/static/torus.svg"><strong>A static file</strong><span>Sent by the server itself, with ETag and ranges. PHP never hears of it.</span></a></li>
</ul>

<script>
const show = (id, text) => { document.getElementById(id).textContent = text };
const middle = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const ms = value => value.toFixed(value < 10 ? 2 : 1) + ' ms';

async function measure() {
    const button = document.getElementById('again');
    button.disabled = true;
    const times = [], inside = [], pids = new Set();
    try {
        await fetch('/api');  // opens the connection, so that it is not measured
        for (let i = 0; i < 50; i++) {
            const from = performance.now();
            const answer = await fetch('/api');
            const body = await answer.json();
            times.push(performance.now() - from);
            inside.push(body.microseconds / 1000);
            pids.add(body.pid);
        }
        show('median', ms(middle(times)));
        show('fastest', ms(Math.min(...times)));
        show('slowest', ms(Math.max(...times)));
        show('inside', ms(middle(inside)));
        show('workers', pids.size);
        const top = Math.max(...times);
        document.getElementById('bars').replaceChildren(...times.map(time => {
            const bar = document.createElement('i');
            bar.style.height = (100 * time / top) + '%';
            bar.title = ms(time);
            return bar;
        }));
    } catch (error) {
        show('note', 'The measurement failed: ' + error.message);
    }
    button.disabled = false;
}
document.getElementById('again').addEventListener('click', measure);
measure();
</script>
