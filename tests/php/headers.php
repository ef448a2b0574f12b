<?php
// Everything a script can do to its header list.
header('X-One: 1');
header('X-NoSpace:value');
header('x-lower: 1');
header('X-Many: a');
header('X-Many: b', false);
header('X-Gone: 1');
header_remove('X-Gone');
header('X-Replaced: 1');
header('x-replaced: 2');
header('X-Colon: a:b');
header('Content-Type: text/plain');
setcookie('first', 'a b', ['path' => '/', 'httponly' => true]);
setcookie('second', 'c', ['samesite' => 'Lax']);
http_response_code(201);
echo implode("\n", array_filter(headers_list(), static fn (string $line): bool => !str_starts_with($line, 'X-Powered')));
