<?php

/** As much of an application container as the test needs. */
final class Application
{
    public static array $seen = [];

    public ArrayObject $config;

    public function __construct()
    {
        $this->config = new ArrayObject(['name' => 'booted']);
    }

    public function __clone()
    {
        $this->config = clone $this->config;
    }

    public function handle(): string
    {
        if (isset($_GET['fail'])) {
            throw new RuntimeException('failed on purpose');
        }
        $before = ['config' => $this->config['name'], 'seen' => self::$seen];
        $this->config['name'] = self::$seen[] = $_GET['name'] ?? 'nobody';

        return json_encode($before + ['now' => $this->config['name'], 'octane' => $_SERVER['LARAVEL_OCTANE']]);
    }

    public function terminate(): void
    {
        file_put_contents(getenv('STATE') . '/terminated', $this->config['name']);
    }
}
