<?php

// Clients of a service that answers with the path it was asked for, or with the body it was sent.

use GuzzleHttp\Client;
use GuzzleHttp\Handler\CurlMultiHandler;
use GuzzleHttp\Handler\StreamHandler;
use GuzzleHttp\HandlerStack;
use Symfony\Component\HttpClient\CurlHttpClient;
use Symfony\Component\HttpClient\NativeHttpClient;
use Symfony\Contracts\HttpClient\HttpClientInterface;

$base = 'http://127.0.0.1:'.getenv('HTTP').'/';

$symfony = static fn (HttpClientInterface $client, string $token): string
    => $client->request('GET', $base.$token)->getContent();

$guzzle = static fn (callable $handler): Client
    => new Client(['base_uri' => $base, 'handler' => HandlerStack::create($handler)]);

// One for all requests: for what is not asked for asynchronously it takes a curl handle that
// nobody uses.
$shared = new Client(['base_uri' => $base]);

return [
    'symfony curl' => static fn (string $token) => $symfony(new CurlHttpClient(), $token),
    'symfony native' => static fn (string $token) => $symfony(new NativeHttpClient(), $token),
    'guzzle' => static fn (string $token) => (string) $shared->get($token)->getBody(),
    'guzzle multi' => static fn (string $token)
        => (string) $guzzle(new CurlMultiHandler())->getAsync($token)->wait()->getBody(),
    'guzzle streams' => static fn (string $token)
        => (string) $guzzle(new StreamHandler())->get($token)->getBody(),
    // SOAP's clients have a handler of errors while they are at work.
    'fatal' => static fn () => trigger_error('not of SOAP', E_USER_ERROR),
    'soap' => static function (string $token) use ($base): string {
        // The service sends the envelope back, so the first argument is the result.
        $client = new SoapClient(null, ['location' => $base.'soap', 'uri' => 'urn:echo']);

        return $client->__soapCall('echo', [$token]);
    },
];
