<?php

use function Demo\e;

session_start(['cookie_httponly' => true, 'cookie_samesite' => 'Lax', 'use_strict_mode' => true]);
if (($_SERVER['REQUEST_METHOD'] ?? 'GET') === 'POST') {
    $_SESSION = [];
    session_regenerate_id(true);
}
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
$_SESSION['since'] ??= time();

?>
<h1>Session</h1>
<p class="lead">Kept by PHP's own session functions, whichever worker answers. Open a private window: it counts for itself.</p>
<section class="card">
    <span class="small">visits to this page since <?= e(date('H:i:s', $_SESSION['since'])) ?></span>
    <div class="big"><?= e($_SESSION['visits']) ?></div>
    <div class="row">
        <form method="get" action="/session"><button>Count</button></form>
        <form method="post" action="/session"><button class="quiet">Start anew</button></form>
        <span class="small">stored by “<?= e((string) ini_get('session.save_handler')) ?>”, answered by process <?= e(getmypid()) ?></span>
    </div>
</section>
