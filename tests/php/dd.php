<?php
// What Symfony's and Laravel's dd() do: a status, output, exit(1).
http_response_code(500);
echo 'dumped';
exit(1);
