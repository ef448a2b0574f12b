<?php

// What a boot makes of its files; the page is a request's own.

require __DIR__ . '/constant.php';
usleep((int) @file_get_contents(__DIR__ . '/slow'));
$setting = trim(@file_get_contents(__DIR__ . '/.env') ?: 'none');
$cache = is_file(__DIR__ . '/cache.php') ? require __DIR__ . '/cache.php' : 'none';
$plugins = count(glob(__DIR__ . '/plugins/*.php'));
$asset = filesize(__DIR__ . '/asset.css');
$part = require __DIR__ . '/part/part.php';
$linked = @include __DIR__ . '/linked/part.php';

return static function () use ($setting, $cache, $plugins, $asset, $part, $linked): void {
    echo 'constant ', CONSTANT, ', setting ', $setting, ', cache ', $cache, ', plugins ', $plugins;
    echo ', asset ', $asset, ', part ', $part, ', linked ', $linked;
    echo ', page ', require __DIR__ . '/page.php';
};
