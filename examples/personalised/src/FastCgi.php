<?php

namespace Personalised;

/**
 * Serves FastCGI on descriptor 0: one connection after the other, and on each one request after the
 * other.
 *
 * A process that lives, unlike php-fpm's and php-cgi's scripts: what it has in memory is there for
 * the next request.
 */
final class FastCgi
{
    private const BEGIN = 1;
    private const ABORT = 2;
    private const END = 3;
    private const PARAMS = 4;
    private const STDIN = 5;
    private const STDOUT = 6;
    private const STDERR = 7;
    private const GET_VALUES = 9;
    private const GET_VALUES_RESULT = 10;
    private const UNKNOWN_TYPE = 11;
    private const KEEP_CONN = 1;
    private const MOST = 65_528;

    private \Socket $connection;
    private string $read = '';

    /** @param callable(array<string, string>): array{int, array<string, string>, string} $answer */
    public static function serve(callable $answer): never
    {
        $listener = socket_import_stream(fopen('php://fd/0', 'r+'));
        while (true) {
            $connection = socket_accept($listener);
            if ($connection) {
                (new self($connection))->serveConnection($answer);
            }
        }
    }

    private function __construct(\Socket $connection)
    {
        $this->connection = $connection;
    }

    private function serveConnection(callable $answer): void
    {
        $params = '';
        $keep = false;
        while ([$type, $id, $content] = $this->record()) {
            match (true) {
                self::GET_VALUES === $type => $this->send(self::GET_VALUES_RESULT, 0, "\x0f\x01FCGI_MPXS_CONNS0"),
                0 === $id => $this->send(self::UNKNOWN_TYPE, 0, chr($type).str_repeat("\0", 7)),
                self::BEGIN === $type => [$params, $keep] = ['', (bool) (ord($content[2]) & self::KEEP_CONN)],
                self::PARAMS === $type => $params .= $content,
                // The body, which no page of ours reads, ends with an empty record.
                self::STDIN === $type && '' === $content => $this->finish($id, $this->ask($answer, $id, self::pairs($params))),
                default => null,
            };
            $isOver = self::STDIN === $type && '' === $content || self::ABORT === $type;
            if ($isOver && !$keep) {
                return;
            }
        }
    }

    /**
     * What goes wrong in one request is told in the server's log, and costs this request alone.
     *
     * @param array<string, string> $variables
     *
     * @return array{int, array<string, string>, string}
     */
    private function ask(callable $answer, int $id, array $variables): array
    {
        try {
            return $answer($variables);
        } catch (\Throwable $wrong) {
            $this->send(self::STDERR, $id, substr($wrong->getMessage(), 0, self::MOST));

            return [500, ['Content-Type' => 'text/plain'], "That did not work.\n"];
        }
    }

    /** @param array{int, array<string, string>, string} $response */
    private function finish(int $id, array $response): void
    {
        [$status, $headers, $body] = $response;
        $head = "Status: $status\r\n";
        foreach ($headers as $name => $value) {
            $head .= "$name: $value\r\n";
        }
        $records = '';
        foreach (str_split("$head\r\n$body", self::MOST) as $piece) {
            $records .= self::encode(self::STDOUT, $id, $piece);
        }
        $this->write($records.self::encode(self::STDOUT, $id, '').self::encode(self::END, $id, str_repeat("\0", 8)));
    }

    /**
     * @return ?array{int, int, string} type, request, content; null when the connection is closed
     */
    private function record(): ?array
    {
        if (!$this->fetch(8)) {
            return null;
        }
        ['type' => $type, 'id' => $id, 'length' => $length, 'padding' => $padding] =
            unpack('Cversion/Ctype/nid/nlength/Cpadding', $this->read);
        if (!$this->fetch(8 + $length + $padding)) {
            return null;
        }
        $content = substr($this->read, 8, $length);
        $this->read = substr($this->read, 8 + $length + $padding);

        return [$type, $id, $content];
    }

    /** Reads until so many bytes are there; false when the connection is closed. */
    private function fetch(int $count): bool
    {
        while (strlen($this->read) < $count) {
            $piece = @socket_read($this->connection, 65_536);
            if (false === $piece || '' === $piece) {
                return false;
            }
            $this->read .= $piece;
        }

        return true;
    }

    private function send(int $type, int $id, string $content): void
    {
        $this->write(self::encode($type, $id, $content));
    }

    /** Whether somebody still listens, the next read says. */
    private function write(string $bytes): void
    {
        while ('' !== $bytes && ($count = @socket_write($this->connection, $bytes))) {
            $bytes = substr($bytes, $count);
        }
    }

    private static function encode(int $type, int $id, string $content): string
    {
        return pack('CCnnCC', 1, $type, $id, strlen($content), 0, 0).$content;
    }

    /** @return array<string, string> */
    private static function pairs(string $content): array
    {
        $pairs = [];
        for ($at = 0, $end = strlen($content); $at < $end;) {
            $lengths = [];
            for ($i = 0; $i < 2; ++$i) {
                $length = ord($content[$at]);
                if ($length < 128) {
                    ++$at;
                } else {
                    $length = unpack('N', $content, $at)[1] & 0x7FFFFFFF;
                    $at += 4;
                }
                $lengths[] = $length;
            }
            [$name, $value] = $lengths;
            $pairs[substr($content, $at, $name)] = substr($content, $at + $name, $value);
            $at += $name + $value;
        }

        return $pairs;
    }
}
