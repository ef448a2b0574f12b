<?php

// Which paths PHP knows before this request has looked them up, and where a link leads.

$known = realpath_cache_get();
$state = getenv('STATE');
if (isset($_GET['own'])) {
    realpath("$state/own");
}
header('Content-Type: application/json');
echo json_encode([
    'knows_link' => isset($known["$state/current"]),
    'knows_own' => isset($known["$state/own"]),
    'link' => basename(realpath("$state/current")),
]);
