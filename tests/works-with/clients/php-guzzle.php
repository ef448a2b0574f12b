<?php // Debian: php-guzzlehttp-guzzle php8.2-curl php8.2-cli
require 'GuzzleHttp/autoload.php';
[, $use, $url] = $argv;
$client = new GuzzleHttp\Client(['verify' => getenv('AUTHORITY')]);

switch ($use) {
    case 'page':
    case 'compressed':
        echo $client->get($url)->getBody();
        break;
    case 'kept':
    case 'later':
        echo $client->get($url)->getBody();
        $use === 'later' && fgets(STDIN);
        echo $client->get($argv[3])->getBody();
        break;
    case 'range':
        readfile($argv[3]);
        $range = 'bytes=' . filesize($argv[3]) . '-';
        echo $client->get($url, ['headers' => ['Range' => $range]])->getBody();
        break;
    case 'upload':
        echo $client->post($url, ['body' => fopen($argv[3], 'r')])->getBody();
}
