<?php
// Asks a page by way of a share that outlives the request: from which port it was asked.
$share = curl_share_init_persistent([CURL_LOCK_DATA_CONNECT, CURL_LOCK_DATA_DNS]);
$curl = curl_init($_GET['page']);
curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_SHARE => $share]);
$text = curl_exec($curl);
header('Content-Type: application/json');
echo json_encode(['pid' => getmypid(), 'port' => json_decode($text)?->REMOTE_PORT, 'error' => curl_error($curl)]);
