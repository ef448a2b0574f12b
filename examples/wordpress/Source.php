<?php

namespace Tokamak\WordPress;

/**
 * WordPress's own source files: which of them only declare things, and parts of them as files of
 * their own.
 */
final class Source
{
    /** What opens a declaration at the top level of a file. */
    private const DECLARES = [T_FUNCTION, T_CLASS, T_INTERFACE, T_TRAIT, T_ABSTRACT, T_FINAL];

    private const SILENT = [T_OPEN_TAG, T_WHITESPACE, T_COMMENT, T_DOC_COMMENT, T_CLOSE_TAG];

    /** Classes and interfaces of the files that were found to only declare, in lower case. */
    private array $declared = [];

    public function __construct(private string $root, private string $directory)
    {
    }

    /** The directory for parts of files and for notes, which nobody else can write to. */
    public static function privateDirectory(): string
    {
        $directory = getenv('WORDPRESS_CACHE') ?: sys_get_temp_dir() . '/tokamak-wordpress-' . posix_geteuid();
        if (!is_dir($directory)) {
            @mkdir($directory, 0700);
        }
        clearstatcache();
        if (is_link($directory) || !is_writable($directory) || (fileperms($directory) & 0777) !== 0700) {
            throw new \RuntimeException("$directory must be a directory of the server's user with mode 0700");
        }
        return $directory;
    }

    public function path(string $name): string
    {
        return "$this->root/$name";
    }

    public function read(string $name): string
    {
        $text = @file_get_contents($this->path($name));
        if ($text === false) {
            throw new \RuntimeException("cannot read {$this->path($name)}");
        }
        return $text;
    }

    /** The text as it means the same in another file. */
    public function movable(string $name): string
    {
        $file = $this->path($name);
        $places = ['__DIR__' => var_export(dirname($file), true), '__FILE__' => var_export($file, true)];
        return strtr($this->read($name), $places);
    }

    /**
     * Keeps a part of a file as a file that can be included; the name changes with what is in it.
     */
    public function keep(string $name, string $code): string
    {
        $file = "$this->directory/$name-" . md5($code) . '.php';
        if (@file_get_contents($file) !== $code) {
            $draft = tempnam($this->directory, 'draft');
            file_put_contents($draft, $code);
            // opcache leaves files alone that are younger than two seconds.
            touch($draft, time() - 60);
            rename($draft, $file);
        }
        return $file;
    }

    /**
     * Whether including this file does nothing but declare functions and classes. Their parents
     * must exist by then: in PHP itself, or in a file that was asked about before.
     */
    public function onlyDeclares(string $name): bool
    {
        $tokens = array_values(array_filter(
            \PhpToken::tokenize($this->read($name)),
            fn ($token) => !$token->is(self::SILENT),
        ));
        $names = [];
        for ($at = 0; $at < count($tokens); $at++) {
            if ($tokens[$at]->is(T_ATTRIBUTE)) {
                while (!$tokens[++$at]->is(']')) {
                }
                continue;
            }
            // require __DIR__ . '/name';
            if ($tokens[$at]->is(T_REQUIRE) && $tokens[$at + 1]->is(T_DIR) && $tokens[$at + 3]->is(T_CONSTANT_ENCAPSED_STRING)) {
                if (!$this->onlyDeclares(dirname($name) . trim($tokens[$at + 3]->text, "'"))) {
                    return false;
                }
                $at += 4;
                continue;
            }
            if (!$tokens[$at]->is(self::DECLARES)) {
                return false;
            }
            // To the end of the declaration: the brace that closes its first one.
            for ($depth = 0; $at < count($tokens); $at++) {
                if ($depth === 0 && $tokens[$at]->is([T_CLASS, T_INTERFACE, T_TRAIT])) {
                    $names[strtolower($tokens[$at + 1]->text)] = true;
                }
                if ($depth === 0 && $tokens[$at]->is([T_EXTENDS, T_IMPLEMENTS]) && !$this->exists($tokens, $at + 1)) {
                    return false;
                }
                $depth += $tokens[$at]->is(['{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES]) <=> $tokens[$at]->is('}');
                if ($depth === 0 && $tokens[$at]->is('}')) {
                    break;
                }
            }
        }
        $this->declared += $names;
        return true;
    }

    /** Whether all classes or interfaces of a list in a declaration exist. */
    private function exists(array $tokens, int $at): bool
    {
        for (; $tokens[$at]->is([T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED, ',']); $at++) {
            $name = ltrim($tokens[$at]->text, '\\');
            if ($name !== ',' && !isset($this->declared[strtolower($name)]) && !class_exists($name, false) && !interface_exists($name, false)) {
                return false;
            }
        }
        return true;
    }

    /** The statements of a file before its first function. */
    public function statements(string $name): string
    {
        $code = '';
        foreach (\PhpToken::tokenize($this->movable($name)) as $token) {
            if ($token->is(T_FUNCTION)) {
                break;
            }
            $code .= $token->text;
        }
        return $code;
    }
}
