<?php

namespace Personalised;

/**
 * Where users and their attributes come from: the database, and the memory of this process if that
 * is wanted.
 */
final class Users
{
    /** Users that are kept; beyond that the one that has been kept longest is forgotten. */
    private const MOST = 10_000;

    private ?\PDO $connection = null;

    /** @var array<string, array{int, array<string, string>}> by name: until when, and the user */
    private array $kept = [];

    /**
     * @param int  $seconds  how long a user is kept in memory; 0: not at all
     * @param bool $keepsOne whether the connection outlives a request
     */
    public function __construct(private string $dsn, private int $seconds, private bool $keepsOne) {}

    /**
     * @return ?array<string, string> the user with all attributes; null if there is none of that
     * name
     */
    public function find(string $name): ?array
    {
        [$until, $user] = $this->kept[$name] ?? [0, null];
        if ($until > time()) {
            return $user;
        }
        unset($this->kept[$name]);
        $user = $this->ask($name);
        if ($user && $this->seconds) {
            if (count($this->kept) >= self::MOST) {
                unset($this->kept[array_key_first($this->kept)]);
            }
            $this->kept[$name] = [time() + $this->seconds, $user];
        }

        return $user;
    }

    /** @return ?array<string, string> */
    private function ask(string $name): ?array
    {
        try {
            $isOld = null !== $this->connection;

            return $this->select($name);
        } catch (\PDOException $gone) {
            $this->connection = null;
            // A kept connection may have been closed by the other side, and reading may be done
            // twice.
            return $isOld ? $this->select($name) : throw $gone;
        } finally {
            if (!$this->keepsOne) {
                $this->connection = null;
            }
        }
    }

    /** @return ?array<string, string> */
    private function select(string $name): ?array
    {
        // Emulated: one message each, and nothing to prepare on a connection that is used once.
        $options = [\PDO::ATTR_EMULATE_PREPARES => true, \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC];
        $this->connection ??= new \PDO($this->dsn, options: $options);
        $row = function (string $sql) use ($name): ?array {
            $statement = $this->connection->prepare($sql);
            $statement->execute([$name]);

            return $statement->fetch() ?: null;
        };
        $user = $row('SELECT name, salt, password FROM users WHERE name = ?');

        return $user ? $user + ($row('SELECT * FROM attributes WHERE name = ?') ?? []) : null;
    }
}
