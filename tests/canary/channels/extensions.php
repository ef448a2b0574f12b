<?php
// What extensions remember.

/** Whether OpenSSL takes a name that only the settings of one request define. */
function new_request_for_certificate(string $names): bool
{
    $file = note('openssl.cnf');
    file_put_contents($file, "oid_section = own\n[req]\ndistinguished_name = dn\n[dn]\n$names");
    $settings = ['config' => $file, 'private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1', 'private_key_bits' => 2048];
    $request = @openssl_csr_new(['polluted' => 'yes'], $key, $settings);
    while (openssl_error_string() !== false) {} // these are a channel of their own
    return $request && openssl_csr_get_subject($request) !== [];
}

return [
    'mt_srand()' => new Channel(
        pollute: function () { mt_srand(1); },
        // The sequence goes on, request by request: one of its first numbers.
        probe: fn () => in_array(mt_rand(), [895547922, 2141438069, 1546885062, 2002651684]),
        worker: STAYS,
    ),
    'strtok()' => new Channel(
        pollute: function () { strtok('some text that was polluted', ' '); },
        probe: fn () => @strtok(' '),
        worker: STAYS,
    ),
    'json_last_error()' => new Channel(
        pollute: function () { json_decode('{'); },
        probe: fn () => json_last_error(),
        worker: STAYS,
    ),
    'preg_last_error()' => new Channel(
        pollute: function () { preg_match('/a/u', "\xff"); },
        probe: fn () => preg_last_error(),
        worker: STAYS,
    ),
    'mb_internal_encoding()' => new Channel(
        pollute: function () { mb_internal_encoding('ISO-8859-1'); },
        probe: fn () => mb_internal_encoding(),
        needs: 'mbstring',
    ),
    'mb_regex_encoding()' => new Channel(
        pollute: function () { mb_regex_encoding('ISO-8859-1'); },
        probe: fn () => mb_regex_encoding(),
        needs: 'mbstring',
    ),
    'mb_regex_set_options()' => new Channel(
        pollute: function () { mb_regex_set_options('ix'); },
        probe: fn () => mb_regex_set_options(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'mbstring',
    ),
    'mb_ereg_search_init()' => new Channel(
        pollute: function () { mb_ereg_search_init('polluted', 'l'); },
        probe: function () {
            try {
                return mb_ereg_search();
            } catch (Error) {
                return 'nothing to search';
            }
        },
        worker: STAYS,
        needs: 'mbstring',
    ),
    'mb_substitute_character()' => new Channel(
        pollute: function () { mb_substitute_character(0x2020); },
        probe: fn () => mb_substitute_character(),
        needs: 'mbstring',
    ),
    'mb_language()' => new Channel(
        pollute: function () { mb_language('ja'); },
        probe: fn () => mb_language(),
        needs: 'mbstring',
    ),
    'mb_detect_order()' => new Channel(
        pollute: function () { mb_detect_order(['EUC-JP']); },
        probe: fn () => mb_detect_order(),
        needs: 'mbstring',
    ),
    'mb_http_output()' => new Channel(
        pollute: function () { mb_http_output('ISO-8859-1'); },
        probe: fn () => mb_http_output(),
        needs: 'mbstring',
    ),
    'Locale::setDefault()' => new Channel(
        pollute: function () { Locale::setDefault('ja_JP'); },
        probe: fn () => Locale::getDefault(),
        needs: 'intl',
    ),
    'intl_get_error_code()' => new Channel(
        pollute: function () { normalizer_normalize("\xff"); },
        probe: fn () => intl_get_error_code(),
        worker: STAYS,
        needs: 'intl',
    ),
    'textdomain()' => new Channel(
        pollute: function () { textdomain('polluted'); },
        probe: fn () => textdomain(null),
        fpm: STAYS,
        worker: STAYS,
        needs: 'gettext',
    ),
    'bindtextdomain()' => new Channel(
        pollute: function () { bindtextdomain('polluted', __DIR__); },
        probe: fn () => bindtextdomain('polluted', null),
        fpm: STAYS,
        worker: STAYS,
        needs: 'gettext',
    ),
    'bind_textdomain_codeset()' => new Channel(
        pollute: function () { bind_textdomain_codeset('polluted', 'ISO-8859-1'); },
        probe: fn () => bind_textdomain_codeset('polluted', null),
        fpm: STAYS,
        worker: STAYS,
        needs: 'gettext',
    ),
    'bind_textdomain_codeset() to UTF-8' => new Channel(
        pollute: function () { bind_textdomain_codeset('polluted once more', 'UTF-8'); },
        probe: fn () => bind_textdomain_codeset('polluted once more', null),
        fpm: STAYS,
        worker: STAYS,
        needs: 'gettext',
    ),
    'libxml_use_internal_errors()' => new Channel(
        pollute: function () { libxml_use_internal_errors(true); },
        probe: function () {
            $was = libxml_use_internal_errors(true);
            libxml_use_internal_errors($was);
            return $was;
        },
        worker: STAYS,
        needs: 'libxml',
    ),
    'libxml_get_errors()' => new Channel(
        pollute: function () {
            libxml_use_internal_errors(true);
            simplexml_load_string('<polluted');
        },
        probe: fn () => count(libxml_get_errors()) > 0,
        worker: STAYS,
        needs: 'simplexml',
    ),
    'libxml_get_last_error()' => new Channel(
        pollute: function () { @simplexml_load_string('<last'); },
        probe: fn () => str_contains(libxml_get_last_error()->message ?? '', 'last'),
        worker: STAYS,
        needs: 'simplexml',
    ),
    'imap_last_error()' => new Channel(
        pollute: function () {
            error_reporting(E_ALL & ~E_NOTICE); // of what nobody has asked for
            @imap_open('{polluted', 'user', 'password');
        },
        probe: fn () => imap_last_error(),
        worker: STAYS,
        needs: 'imap',
    ),
    'libxml_set_external_entity_loader()' => new Channel(
        pollute: function () { libxml_set_external_entity_loader(fn () => null); },
        probe: fn () => libxml_get_external_entity_loader() !== null,
        worker: STAYS,
        needs: 'libxml',
    ),
    'openssl_error_string()' => new Channel(
        // Each look takes one error away.
        pollute: function () {
            for ($i = 0; $i < 5; $i++) {
                openssl_pkey_get_private('polluted');
            }
        },
        probe: fn () => openssl_error_string() !== false,
        fpm: STAYS,
        worker: STAYS,
        needs: 'openssl',
    ),
    'OIDs of openssl_csr_new()' => new Channel(
        pollute: function () { new_request_for_certificate("[own]\npolluted = 1.3.6.1.4.1.99999.1\n"); },
        probe: fn () => new_request_for_certificate("[own]\n"),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'openssl',
    ),
    'posix_get_last_error()' => new Channel(
        pollute: function () { posix_kill(PHP_INT_MAX >> 32, 0); },
        probe: fn () => posix_get_last_error(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'posix',
    ),
    'socket_last_error()' => new Channel(
        pollute: function () { @socket_create(AF_INET, SOCK_STREAM, 99); },
        probe: fn () => socket_last_error(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'sockets',
    ),
    'mysqli_connect_errno()' => new Channel(
        pollute: function () {
            try {
                mysqli_connect(socket: '/polluted');
            } catch (mysqli_sql_exception) {
            }
        },
        probe: fn () => mysqli_connect_errno(),
        worker: STAYS,
        needs: 'mysqli',
    ),
    'mysqli_get_client_stats()' => new Channel(
        pollute: function () {
            try {
                mysqli_connect(socket: '/polluted');
            } catch (mysqli_sql_exception) {
            }
        },
        probe: fn () => mysqli_get_client_stats()['connect_failure'],
        fpm: STAYS,
        worker: STAYS,
        needs: 'mysqli',
    ),
    'mysqli_report()' => new Channel(
        pollute: function () { mysqli_report(MYSQLI_REPORT_OFF); },
        probe: fn () => (new mysqli_driver())->report_mode,
        worker: STAYS,
        needs: 'mysqli',
    ),
    'PDO::ATTR_PERSISTENT' => new Channel(
        pollute: function () {
            $database = new PDO('sqlite::memory:', options: [PDO::ATTR_PERSISTENT => true]);
            $database->exec('CREATE TABLE polluted (id)');
        },
        probe: function () {
            $database = new PDO('sqlite::memory:', options: [PDO::ATTR_PERSISTENT => true]);
            return $database->query('SELECT count(*) FROM sqlite_master')->fetchColumn();
        },
        fpm: SHARED,
        classic: SHARED,
        worker: SHARED,
        needs: 'pdo_sqlite',
    ),
    'Memcached, persistent' => new Channel(
        pollute: function () { (new Memcached('kept'))->setOption(Memcached::OPT_PREFIX_KEY, 'polluted'); },
        probe: fn () => (new Memcached('kept'))->getOption(Memcached::OPT_PREFIX_KEY),
        fpm: SHARED,
        classic: SHARED,
        worker: SHARED,
        needs: 'memcached',
    ),
    'APCu' => new Channel(
        pollute: function () { apcu_store('polluted', true); },
        probe: fn () => apcu_exists('polluted'),
        fpm: SHARED,
        classic: SHARED,
        worker: SHARED,
        sealed: SHARED,
        needs: 'apcu',
    ),
];
