<?php

// Of the shape of Laravel: singletons in a container, one of them a session with a CSRF token, made when
// a page first asks for it.

final class Session
{
    public ?string $token = null;

    public function start(): void
    {
        if ($this->token === null) {
            $this->token = bin2hex(random_bytes(20));
            setcookie('laravel_session', bin2hex(random_bytes(20)));
        }
    }
}

final class Container
{
    private array $made = [];

    public function make(string $class): object
    {
        return $this->made[$class] ??= new $class();
    }
}

$container = new Container();
$container->make(Session::class);
$node = bin2hex(random_bytes(8));

$handler = static function () use ($container, $node): void {
    if ($_SERVER['REQUEST_URI'] === '/hidden') {
        session_start(['use_cookies' => 0]);
        return;
    }
    $session = $container->make(Session::class);
    if (!str_starts_with($_SERVER['REQUEST_URI'], '/up')) {
        $session->start();
    }
    echo $session->token;
};

while (tokamak_handle_request($handler)) {
}
