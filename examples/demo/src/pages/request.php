<?php

use function Demo\e;

// Only what describes the request: the rest of $_SERVER may hold the environment, which is nobody's
// business.
$described = array_filter(
    $_SERVER,
    static fn ($value, $name) => is_scalar($value) && preg_match(
        '/^(SERVER|REQUEST|REMOTE|SCRIPT|DOCUMENT|CONTENT|GATEWAY)_|^(PATH_INFO|PHP_SELF|QUERY_STRING|HTTPS)$/',
        (string) $name,
    ) === 1,
    ARRAY_FILTER_USE_BOTH,
);
ksort($described);
$headers = function_exists('getallheaders') ? getallheaders() : [];
ksort($headers);

$tables = ['Headers, as getallheaders() gives them' => $headers, '$_SERVER, but for headers and environment' => $described];

?>
<h1>Request</h1>
<p class="lead">Try <a href="/request?colour=red&amp;shape%5B%5D=torus"><code>/request?colour=red&amp;shape[]=torus</code></a>.</p>
<?php if ($_GET !== []): ?>
<section class="card"><h2>$_GET</h2><pre><?= e((string) json_encode($_GET, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE)) ?></pre></section>
<?php endif ?>
<?php foreach ($tables as $caption => $rows): ?>
<section class="card">
    <h2><?= e($caption) ?></h2>
    <table>
<?php foreach ($rows as $name => $value): ?>
        <tr><th><?= e($name) ?></th><td class="c"><?= e($value) ?></td></tr>
<?php endforeach ?>
    </table>
</section>
<?php endforeach ?>
