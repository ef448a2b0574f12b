<?php
// Whether opcache has this script from files, and what it says of itself.
header('Content-Type: application/json');
$status = opcache_get_status(false);
echo json_encode([
    'cached' => opcache_is_script_cached(__FILE__),
    'in_files' => opcache_is_script_cached_in_file_cache(__FILE__),
    'misses' => $status['opcache_statistics']['misses'] ?? null,
    'read_only' => ini_get('opcache.file_cache_read_only'),
    'file_cache' => ini_get('opcache.file_cache'),
]);
