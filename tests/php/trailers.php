<?php
// A body whose length follows it, in pieces or at once; `length`: that is announced as well.
$pieces = (int) ($_GET['pieces'] ?? 1);
$piece = str_repeat('x', (int) ($_GET['bytes'] ?? 10));
if (isset($_GET['early'])) {
    tokamak_trailer('X-Early', 'yes');
}
header('Content-Type: text/plain');
header('Trailer: X-Bytes, X-Early');
if (isset($_GET['length'])) {
    header('Content-Length: ' . $pieces * strlen($piece));
}
for ($sent = 0; $sent < $pieces * strlen($piece); $sent += strlen($piece)) {
    echo $piece;
    if (isset($_GET['flush'])) {
        flush();
    }
}
tokamak_trailer('X-Bytes', (string) $sent);
if (isset($_GET['undeclared'])) {
    tokamak_trailer('Grpc-Status', '0');
}
