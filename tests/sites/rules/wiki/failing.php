<?php
// Fails as it is asked to, says why in fields, and goes on to its end.
header('WWW-Authenticate: Basic realm="staff"');
header('WWW-Authenticate: Bearer', false);
header('Retry-After: 7');
header('Set-Cookie: told=by-the-application');
header('Cache-Control: public, max-age=60');
header('X-Told: by the application');
// At last, because PHP makes it 401 with the first field.
http_response_code((int) $_GET['status']);
echo str_repeat('the application failed', (int) ($_GET['times'] ?? 1));
flush();
echo 'more';
if (isset($_GET['done'])) {
    file_put_contents($_GET['done'], 'done', FILE_APPEND);
}
