<?php

declare(strict_types=1);

namespace Cms;

use PDO;
use PDOException;
use Throwable;

/** Connections that last longer than a request, each lent to one request at a time. */
final class Connections
{
    /** @var list<PDO> */
    private array $free = [];

    public function __construct(private readonly array $settings)
    {
    }

    /** Runs $work with a connection of its own. What it began and did not finish is undone. */
    public function lend(callable $work): void
    {
        $connection = $this->take();
        try {
            $work($connection);
        } catch (Throwable $failure) {
            // Its state is not known: the last reference goes, and with it the connection.
            unset($connection);
            throw $failure;
        }
        if ($connection->inTransaction()) {
            $connection->rollBack();
        }
        $this->free[] = $connection;
    }

    /** One that nobody uses, or else a new one. Those that the database has closed are no use. */
    private function take(): PDO
    {
        while ($kept = array_pop($this->free)) {
            try {
                $kept->query('SELECT 1');

                return $kept;
            } catch (PDOException) {
            }
        }

        return connect($this->settings);
    }
}
