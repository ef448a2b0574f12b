<?php // Debian: php-symfony-http-client php8.2-curl php8.2-cli
require 'Symfony/Component/HttpClient/autoload.php';
[, $use, $url] = $argv;
$client = Symfony\Component\HttpClient\HttpClient::create(['cafile' => getenv('AUTHORITY')]);

switch ($use) {
    case 'page':
    case 'compressed':
        echo $client->request('GET', $url)->getContent();
        break;
    case 'kept':
    case 'later':
        echo $client->request('GET', $url)->getContent();
        $use === 'later' && fgets(STDIN);
        echo $client->request('GET', $argv[3])->getContent();
        break;
    case 'range':
        readfile($argv[3]);
        $range = 'bytes=' . filesize($argv[3]) . '-';
        echo $client->request('GET', $url, ['headers' => ['Range' => $range]])->getContent();
        break;
    case 'upload':
        echo $client->request('POST', $url, ['body' => fopen($argv[3], 'r')])->getContent();
}
