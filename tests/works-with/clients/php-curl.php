<?php // Debian: php8.2-curl php8.2-cli
[, $use, $url] = $argv;
$curl = curl_init();
curl_setopt($curl, CURLOPT_CAINFO, getenv('AUTHORITY'));

function exit_with(string $why): never
{
    fwrite(STDERR, $why);
    exit(1);
}

function ask(string $url): void
{
    global $curl;
    curl_setopt($curl, CURLOPT_URL, $url);
    curl_exec($curl) || exit_with(curl_error($curl));
}

switch ($use) {
    case 'kept':
    case 'later':
        ask($url);
        $use === 'later' && fgets(STDIN);
        $url = $argv[3];
        break;
    case 'range':
        readfile($argv[3]);
        curl_setopt($curl, CURLOPT_RESUME_FROM, filesize($argv[3]));
        break;
    case 'upload':
        curl_setopt_array($curl, [
            CURLOPT_UPLOAD => true,
            CURLOPT_INFILE => fopen($argv[3], 'r'),
            CURLOPT_INFILESIZE => filesize($argv[3]),
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
        ]);
        break;
    case 'compressed':
        curl_setopt($curl, CURLOPT_ACCEPT_ENCODING, '');
}
ask($url);
