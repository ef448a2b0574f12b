<?php
// Numbers, time and identifiers.
return [
    'bcmath' => [
        'use' => static fn () => [bcadd('0.1', '0.2', 3), bcpowmod('3', '200', '7919')],
        'is' => ['0.300', '546'],
    ],
    'calendar' => [
        'use' => static fn () => [gregoriantojd(11, 30, 2026), jdtojewish(2461375), easter_days(2027)],
        'is' => [2461375, '3/20/5787', 7],
    ],
    'gmp' => [
        'make' => static fn () => gmp_init('0x1fffffffffffffffff'),
        'use' => static fn (GMP $made) => [gmp_strval($made * 3), gmp_prob_prime('2305843009213693951')],
        'is' => ['1770887431076116955133', 1],
    ],
    'uuid' => [
        'use' => static fn () => [uuid_is_valid(uuid_create()), uuid_create() === uuid_create()],
        'is' => [true, false],
    ],
    'random' => [
        'make' => static fn () => new Random\Randomizer(new Random\Engine\Mt19937(7)),
        'use' => static fn (Random\Randomizer $made) => [strlen($made->getBytes(8)), random_bytes(8) === random_bytes(8)],
        'is' => [8, false],
    ],
    'sodium' => [
        'make' => static fn () => str_repeat('k', SODIUM_CRYPTO_SECRETBOX_KEYBYTES),
        'use' => static function (string $made) {
            $nonce = random_bytes(SODIUM_CRYPTO_SECRETBOX_NONCEBYTES);
            return sodium_crypto_secretbox_open(sodium_crypto_secretbox('text', $nonce, $made), $nonce, $made);
        },
        'is' => 'text',
    ],
    'openssl' => [
        'make' => static fn () => openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']),
        'use' => static function (OpenSSLAsymmetricKey $made) {
            openssl_sign('text', $signature, $made, 'sha256');
            return openssl_verify('text', $signature, openssl_pkey_get_details($made)['key'], 'sha256');
        },
        'is' => 1,
    ],
    'mcrypt' => [
        'make' => static fn () => mcrypt_module_open('rijndael-128', '', 'cbc', ''),
        'use' => static function ($made) {
            @mcrypt_generic_init($made, str_repeat('k', 32), str_repeat('i', 16));
            $secret = mcrypt_generic($made, str_pad('text', 16, '.'));
            mcrypt_generic_deinit($made);
            @mcrypt_generic_init($made, str_repeat('k', 32), str_repeat('i', 16));
            return @mdecrypt_generic($made, $secret);
        },
        'is' => 'text............',
    ],
    'gnupg' => [
        'use' => static function () {
            $home = getenv('STATE') . '/gnupg-' . bin2hex(random_bytes(4));
            mkdir($home, 0o700);
            $engine = new gnupg(['home_dir' => $home]);
            return [$engine->keyinfo(''), $engine->getprotocol()];
        },
        'is' => [[], 0],
    ],
    'geos' => [
        'make' => static fn () => (new GEOSWKTReader())->read('POLYGON((0 0, 4 0, 4 3, 0 3, 0 0))'),
        'use' => static fn (GEOSGeometry $made) => [$made->area(), $made->buffer(0)->typeName()],
        'is' => [12.0, 'Polygon'],
    ],
    'maxminddb' => [
        'use' => static function () {
            try {
                return (new MaxMind\Db\Reader(__FILE__))->get('192.0.2.1');
            } catch (MaxMind\Db\Reader\InvalidDatabaseException) {
                return 'not a database';
            }
        },
        'is' => 'not a database',
    ],
];
