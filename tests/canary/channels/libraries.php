<?php
// What libraries behind extensions remember for the whole process.

/** The certificates that a new LDAP connection demands. */
function ldap_demand(): int
{
    ldap_get_option(ldap_connect('ldap://127.0.0.1'), LDAP_OPT_X_TLS_REQUIRE_CERT, $demand);
    return $demand;
}

/** A setting of SQLite that holds for all connections. */
function sqlite_pragma(string $pragma): string
{
    $database = new PDO('sqlite::memory:');
    return (string) $database->query("PRAGMA $pragma")->fetchColumn();
}

/** An answer of a C library, which may not be there. */
function netsnmp_output_format(): int
{
    static $library;
    // Net-SNMP's numbers of the library's own settings, and of the form of object ids among them.
    return ($library ??= FFI::cdef('int netsnmp_ds_get_int(int store, int which);'))->netsnmp_ds_get_int(0, 4);
}

/** Engines that OpenSSL knows, by what curl's library for encryption says. */
function openssl_engines(): array
{
    static $library;
    $library ??= FFI::cdef('void *ENGINE_get_first(void);
        void *ENGINE_get_next(void *engine);
        const char *ENGINE_get_id(const void *engine);');
    $ids = [];
    for ($engine = $library->ENGINE_get_first(); $engine; $engine = $library->ENGINE_get_next($engine)) {
        $ids[] = $library->ENGINE_get_id($engine);
    }
    return $ids;
}

/** What GMP's generator gives first when its seed is 1. */
const FIRST_OF_GMP = ['14334377958732970299', '439508226923354066', '16342584875763688559', '9744705020902928610'];

return [
    // libldap reads the variable when it is first used: so this channel comes before its other
    // ones, and does not touch the library until it is polluted.
    'putenv() for libldap' => new Channel(
        pollute: function () {
            touch(note('ldap'));
            putenv('LDAPTLS_REQCERT=try');
        },
        probe: fn () => is_file(note('ldap')) && ldap_demand() === LDAP_OPT_X_TLS_TRY,
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'ldap',
    ),
    'ldap_set_option() without a connection' => new Channel(
        pollute: function () { ldap_set_option(null, LDAP_OPT_X_TLS_REQUIRE_CERT, LDAP_OPT_X_TLS_NEVER); },
        probe: fn () => ldap_demand(),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'ldap',
    ),
    'CURLOPT_SSLENGINE_DEFAULT' => new Channel(
        pollute: function () {
            // The only one of Debian's that needs no device.
            $curl = curl_init();
            curl_setopt_array($curl, [CURLOPT_SSLENGINE => 'loader_attic', CURLOPT_SSLENGINE_DEFAULT => 1]);
        },
        probe: fn () => openssl_engines(),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'curl',
    ),
    'hard_heap_limit of SQLite' => new Channel(
        pollute: function () { sqlite_pragma('hard_heap_limit = 50000000'); },
        probe: fn () => sqlite_pragma('hard_heap_limit'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'pdo_sqlite',
    ),
    'soft_heap_limit of SQLite' => new Channel(
        pollute: function () { sqlite_pragma('soft_heap_limit = 40000000'); },
        probe: fn () => sqlite_pragma('soft_heap_limit'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'pdo_sqlite',
    ),
    'temp_store_directory of SQLite' => new Channel(
        pollute: function () { sqlite_pragma("temp_store_directory = '" . getenv('STATE') . "'"); },
        probe: fn () => sqlite_pragma('temp_store_directory'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'pdo_sqlite',
    ),
    'Imagick::setResourceLimit()' => new Channel(
        pollute: function () { Imagick::setResourceLimit(Imagick::RESOURCETYPE_MEMORY, 1_000_000); },
        probe: fn () => Imagick::getResourceLimit(Imagick::RESOURCETYPE_MEMORY),
        fpm: STAYS,
        worker: STAYS,
        needs: 'imagick',
    ),
    'Imagick::setRegistry()' => new Channel(
        pollute: function () { Imagick::setRegistry('temporary-path', '/polluted'); },
        probe: fn () => Imagick::listRegistry(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'imagick',
    ),
    'mpr: image of ImageMagick' => new Channel(
        pollute: function () {
            $image = new Imagick();
            $image->newImage(3, 2, 'red');
            $image->writeImage('mpr:polluted');
        },
        probe: function () {
            try {
                return (new Imagick('mpr:polluted'))->getImageGeometry();
            } catch (ImagickException) {
                return 'no such image';
            }
        },
        fpm: STAYS,
        worker: STAYS,
        needs: 'imagick',
    ),
    'imap_timeout()' => new Channel(
        pollute: function () { imap_timeout(IMAP_READTIMEOUT, 7); },
        probe: fn () => imap_timeout(IMAP_READTIMEOUT),
        fpm: STAYS,
        worker: STAYS,
        needs: 'imap',
    ),
    'snmp_set_quick_print()' => new Channel(
        pollute: function () { snmp_set_quick_print(true); },
        probe: fn () => snmp_get_quick_print(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'snmp',
    ),
    'snmp_set_valueretrieval()' => new Channel(
        pollute: function () { snmp_set_valueretrieval(SNMP_VALUE_PLAIN); },
        probe: fn () => snmp_get_valueretrieval(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'snmp',
    ),
    'snmp_set_oid_output_format()' => new Channel(
        pollute: function () { snmp_set_oid_output_format(SNMP_OID_OUTPUT_NUMERIC); },
        probe: fn () => netsnmp_output_format(),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'snmp',
    ),
    'history of readline' => new Channel(
        pollute: function () { readline_add_history('polluted'); },
        probe: function () {
            readline_write_history(note('history'));
            return str_contains(file_get_contents(note('history')), 'polluted');
        },
        fpm: STAYS,
        worker: STAYS,
        needs: 'readline',
    ),
    'locale that Tidy sets' => new Channel(
        pollute: function () {
            putenv('LC_ALL=POSIX');
            tidy_repair_string('<p>');
        },
        probe: fn () => setlocale(LC_ALL, '0'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'tidy',
        exists: function_exists('tidy_get_release') && tidy_get_release() < '2021', // until 5.6
    ),
    'gmp_random_seed()' => new Channel(
        pollute: function () { gmp_random_seed(1); },
        // The sequence goes on, request by request: one of its first numbers.
        probe: fn () => in_array(gmp_strval(gmp_random_bits(64)), FIRST_OF_GMP, true),
        worker: STAYS,
        needs: 'gmp',
    ),
    'bcscale()' => new Channel(
        pollute: function () { bcscale(7); },
        probe: fn () => bcscale(),
        needs: 'bcmath',
    ),
];
