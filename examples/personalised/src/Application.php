<?php

namespace Personalised;

require_once __DIR__.'/Users.php';

/**
 * Pages in which every variable's name is replaced by the value that the user has. Knows no server.
 */
final class Application
{
    public function __construct(private Users $users) {}

    /** With the users of the database, as the environment says. */
    public static function fromEnvironment(): self
    {
        $seconds = (int) getenv('USERS_KEPT_SECONDS');
        $keepsOne = 'no' !== getenv('USERS_KEEP_CONNECTION');

        return new self(new Users(getenv('USERS_DSN') ?: 'pgsql:dbname=users', $seconds, $keepsOne));
    }

    /**
     * @param array<string, string> $variables REQUEST_URI and, with name and password, HTTP_AUTHORIZATION
     *
     * @return array{int, array<string, string>, string} status, headers, body
     */
    public function answer(array $variables): array
    {
        $user = $this->user($variables['HTTP_AUTHORIZATION'] ?? '');
        if (!$user) {
            return [401, ['Content-Type' => 'text/plain', 'WWW-Authenticate' => 'Basic realm="users"'], "Who are you?\n"];
        }
        $page = trim(strtok($variables['REQUEST_URI'] ?? '/', '?'), '/') ?: 'welcome';
        $file = __DIR__."/../content/$page.html";
        if (!preg_match('/^[a-z]+$/D', $page) || !is_file($file)) {
            return [404, ['Content-Type' => 'text/plain'], "There is no such page.\n"];
        }

        return [200, ['Content-Type' => 'text/html; charset=utf-8'], self::fill(file_get_contents($file), $user)];
    }

    /** @return ?array<string, string> the user whose name and password these are */
    private function user(string $authorization): ?array
    {
        if (!str_starts_with($authorization, 'Basic ')) {
            return null;
        }
        [$name, $password] = explode(':', (string) base64_decode(substr($authorization, 6)), 2) + [1 => ''];
        $user = $this->users->find($name);
        // One SHA-256, a microsecond: this is asked at each request. It is no protection for
        // passwords that leak; who needs that checks a slow hash once, at the login, and compares a
        // session's secret afterwards.
        $isRight = $user && hash_equals($user['password'], hash('sha256', $user['salt'].$password));

        return $isRight ? $user : null;
    }

    /** @param array<string, string> $user */
    private static function fill(string $text, array $user): string
    {
        $values = [];
        foreach ($user as $name => $value) {
            $values["{{$name}}"] = htmlspecialchars(rtrim($value));
        }
        unset($values['{salt}'], $values['{password}']);

        return strtr($text, $values);
    }
}
