<?php
// Publishes by Symfony's library, with the token that the test has made.

use Symfony\Component\Mercure\Hub;
use Symfony\Component\Mercure\Jwt\StaticTokenProvider;
use Symfony\Component\Mercure\Update;

require 'Symfony/Component/Mercure/autoload.php';

$url = "http://$_SERVER[SERVER_ADDR]:$_SERVER[SERVER_PORT]/.well-known/mercure";
$hub = new Hub($url, new StaticTokenProvider(getenv('TOKEN')));
$update = new Update(['/a', '/b'], $_GET['data'], isset($_GET['private']), null, 'news', 900);
try {
    echo $hub->publish($update);
} catch (Exception $failure) {
    echo $failure->getPrevious()->getMessage();
}
