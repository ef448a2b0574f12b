<?php

use function Demo\e;

?>
<h1>Streaming</h1>
<p class="lead">The script behind <code>/events</code> echoes a line, calls <code>flush()</code> and sleeps, ten times over.
If anything between it and you kept the lines back, they would all arrive together at the end.</p>
<section class="card">
    <table>
        <thead><tr><th>event</th><th>left PHP after</th><th>arrived after</th></tr></thead>
        <tbody id="events" class="n"></tbody>
    </table>
    <p class="row"><button id="again" type="button">Once more</button><span class="small" id="state">connecting…</span></p>
    <p class="small">Without a browser: <code>curl -N http://<?= e($_SERVER['HTTP_HOST'] ?? 'localhost') ?>/events</code></p>
</section>
<script>
const rows = document.getElementById('events'), state = document.getElementById('state');
let source;
function listen() {
    if (source) source.close();
    rows.replaceChildren();
    state.textContent = 'connecting…';
    const from = performance.now();
    source = new EventSource('/events');
    source.onmessage = event => {
        const { number, left } = JSON.parse(event.data), row = rows.insertRow();
        row.insertCell().textContent = number;
        row.insertCell().textContent = left + ' ms';
        row.insertCell().textContent = Math.round(performance.now() - from) + ' ms';
        state.textContent = 'receiving…';
    };
    source.addEventListener('end', () => { source.close(); state.textContent = 'done' });
    source.onerror = () => { source.close(); state.textContent = 'the connection broke' };
}
document.getElementById('again').addEventListener('click', listen);
listen();
</script>
