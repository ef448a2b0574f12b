<?php
// A worker as applications write it, under FrankenPHP's name: boots, counts, and says what it kept.
$boot = ['marker' => $_SERVER['FRANKENPHP_WORKER'] ?? null, 'site' => $_SERVER['SITE_VAR'] ?? null];
echo 'output before the loop';
$count = 0;
$file = fopen(__FILE__, 'r');
spl_autoload_register(static function (string $class): void {
    if ($class === 'LoadedLate') {
        eval('class LoadedLate { public static int $calls = 0; }');
    }
});
$handler = static function () use (&$count, $boot, $file): string {
    $count++;
    switch ($_GET['do'] ?? '') {
        case 'nested':
            try {
                frankenphp_handle_request(static fn () => null);
            } catch (Throwable $problem) {
                echo get_class($problem);
            }
            return 'nested';
        case 'count':
            echo $count;
            return 'count';
    }
    header('Content-Type: application/json');
    echo json_encode([
        'count' => $count,
        'calls' => ++LoadedLate::$calls,
        'line' => fgets($file) ?: 'end',
        'boot' => $boot,
        'marker' => $_SERVER['FRANKENPHP_WORKER'] ?? null,
        'pid' => getmypid(),
    ]);
    return 'ignored';
};
$types = [];
while ($handled = frankenphp_handle_request($handler)) {
    $types[get_debug_type($handled)] = true;
}
file_put_contents(getenv('STATE') . '/left', json_encode([$count, array_keys($types), $handled]));
