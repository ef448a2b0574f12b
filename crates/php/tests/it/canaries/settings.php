<?php
/* What functions of PHP set for the process. */

/** Has a file for each of the directories that requests are in. */
function directory_of(int $n): string
{
    $directory = __DIR__ . '/d' . $n % 4;
    if (!is_dir($directory)) {
        mkdir($directory);
        file_put_contents("$directory/which.php", '<?php return ' . $n % 4 . ';');
        file_put_contents("$directory/size", str_repeat('x', $n % 4));
    }
    return $directory;
}

const ENCODINGS = ['UTF-8', 'ASCII', 'ISO-8859-1'];

/** A setting of its own number. */
function numbered(string $name): array
{
    return own(fn($n) => ini_set($name, (string) $n), fn() => (int) ini_get($name));
}

return [
    'Settings' => [
        '`ini_set()`' => numbered('user_agent'),
        '`ini_set()`, what it works on' => own(fn($n) => ini_set('precision', 1 + $n % 15),
            fn($n) => told($n, strlen((string) (1 / 3)) - 3 === $n % 15, (string) (1 / 3))),
        '`ini_set()` of mbstring' => numbered('mbstring.regex_stack_limit'),
        '`ini_set()` of sessions' => numbered('session.gc_maxlifetime'),
        '`ini_set()` of what nothing watches' => numbered('highlight.comment'),
        '`ini_set()` of `open_basedir`' => own(fn($n) => ini_set('open_basedir', "/:/$n"),
            fn() => (int) substr(ini_get('open_basedir'), 3)),
        '`set_include_path()`' => own(fn($n) => set_include_path("/$n"),
            fn() => (int) substr(get_include_path(), 1)),
        '`include` by the include path' => own(fn($n) => set_include_path(directory_of($n)),
            fn($n) => told($n, (include 'which.php') === $n % 4, 'another file')),
        '`set_time_limit()`' => own(fn($n) => set_time_limit(1000 + $n),
            fn() => ini_get('max_execution_time') - 1000),
        '`gc_enable()`' => own(fn($n) => $n % 2 ? gc_enable() : gc_disable(),
            fn($n) => told($n, gc_enabled() === (bool) ($n % 2))),
        'the function that `assert_options()` names' => own(
            fn($n) => @assert_options(ASSERT_CALLBACK, fn() => $n),
            fn() => @assert_options(ASSERT_CALLBACK)()),
        '`bcscale()`' => own(fn($n) => bcscale($n), fn() => strlen(bcdiv('1', '3')) - 2),
        '`locale_set_default()`' => own(fn($n) => locale_set_default(nth(['de', 'fr', 'en'], $n)),
            fn($n) => told($n, locale_get_default() === nth(['de', 'fr', 'en'], $n))),
        '`stream_context_set_default()`' => own(
            fn($n) => stream_context_set_default(['http' => ['user_agent' => "$n"]]),
            function () {
                $options = stream_context_get_options(stream_context_get_default());
                return (int) $options['http']['user_agent'];
            }),
    ],
    'Time, place, language' => [
        '`date_default_timezone_set()`' => own(
            fn($n) => date_default_timezone_set('Etc/GMT+' . $n % 12),
            fn($n) => told($n, date_default_timezone_get() === 'Etc/GMT+' . $n % 12)),
        '`setlocale()`' => own(fn($n) => setlocale(LC_ALL, nth(['C', 'C.UTF-8'], $n)),
            fn($n) => told($n, setlocale(LC_ALL, 0) === nth(['C', 'C.UTF-8'], $n))),
        '`textdomain()`' => own(fn($n) => textdomain("d$n"),
            fn() => (int) substr(textdomain(null), 1)),
        '`sys_get_temp_dir()`' => own(fn($n) => putenv("TMPDIR=/tmp/$n"),
            fn() => (int) substr(sys_get_temp_dir(), 5)),
        '`chdir()`' => own(fn($n) => chdir(directory_of($n)),
            fn($n) => told($n, getcwd() === directory_of($n), getcwd())),
        '`include` in the current directory' => own(fn($n) => chdir(directory_of($n)),
            fn($n) => told($n, (include './which.php') === $n % 4, 'another file')),
        'files in the current directory' => own(fn($n) => chdir(directory_of($n)),
            fn($n) => told($n, filesize('size') === $n % 4, filesize('size') . ' bytes')),
        '`umask()`' => own(fn($n) => umask($n), fn() => umask()),
        '`putenv()`' => own(fn($n) => putenv("V=$n"), fn() => (int) getenv('V')),
    ],
    'Encodings' => [
        '`mb_internal_encoding()`' => own(fn($n) => mb_internal_encoding(nth(ENCODINGS, $n)),
            fn($n) => told($n, mb_internal_encoding() === nth(ENCODINGS, $n))),
        '`mb_http_output()`' => own(fn($n) => mb_http_output(nth(ENCODINGS, $n)),
            fn($n) => told($n, mb_http_output() === nth(ENCODINGS, $n))),
        '`mb_regex_encoding()`' => own(fn($n) => mb_regex_encoding(nth(ENCODINGS, $n)),
            fn($n) => told($n, mb_regex_encoding() === nth(ENCODINGS, $n))),
        '`mb_regex_set_options()`' => own(fn($n) => mb_regex_set_options(nth(['pr', 'ir'], $n)),
            fn($n) => told($n, mb_regex_set_options() === nth(['pr', 'ir'], $n),
                mb_regex_set_options())),
        '`mb_language()`' => own(fn($n) => mb_language(nth(['Japanese', 'English', 'uni'], $n)),
            fn($n) => told($n, mb_language() === nth(['Japanese', 'English', 'uni'], $n))),
        '`ini_set()` of the language of mbstring, what it works on' => own(
            fn($n) => ini_set('mbstring.language', nth(['Japanese', 'Korean', 'neutral'], $n)),
            function ($n) {
                mb_detect_order('auto');
                return told($n, count(mb_detect_order()) === nth([5, 4, 2], $n),
                    ini_get('mbstring.language') . ': ' . implode(', ', mb_detect_order()));
            }),
        '`mb_language()` of what is no language' => own(
            function ($n) {
                mb_language('English');
                try {
                    $n % 2 || mb_language('none');
                } catch (ValueError) {
                }
            },
            fn($n) => told($n, mb_language() === nth(['neutral', 'English'], $n), mb_language())),
        '`mb_detect_order()`' => own(fn($n) => mb_detect_order([nth(ENCODINGS, $n)]),
            fn($n) => told($n, mb_detect_order() === [nth(ENCODINGS, $n)])),
        '`mb_internal_encoding()` and `default_charset`' => own(
            function ($n) {
                ini_set('default_charset', nth(ENCODINGS, $n + 1));
                mb_internal_encoding(nth(ENCODINGS, $n));
            },
            fn($n) => told($n, mb_internal_encoding() === nth(ENCODINGS, $n),
                mb_internal_encoding())),
        '`mb_substitute_character()`' => own(fn($n) => mb_substitute_character(64 + $n),
            fn() => mb_substitute_character() - 64),
        '`mb_substitute_character()`, and then `long`' => own(
            function ($n) {
                mb_substitute_character(64 + $n);
                mb_substitute_character('long');
            },
            fn() => mb_substitute_character() === 'long'
                ? ord(mb_convert_encoding("\x11", 'UTF-8', 'UCS-2BE')) - 64 : 'not long'),
        '`mb_http_input()`' => own(
            function ($n) {
                ini_set('input_encoding', nth(ENCODINGS, $n));
                mb_parse_str('v=1', $values);
            },
            fn($n) => told($n, mb_http_input() === nth(ENCODINGS, $n), (string) mb_http_input())),
        '`iconv_set_encoding()`' => own(fn($n) => ini_set('iconv.internal_encoding', "V$n"),
            fn() => (int) substr(iconv_get_encoding('internal_encoding'), 1)),
    ],
];
