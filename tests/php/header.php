<?php
// Sends the header lines that the request asks for.
foreach ($_GET['line'] as $line) {
    header($line);
}
echo http_response_code() === false ? 'none' : http_response_code();
