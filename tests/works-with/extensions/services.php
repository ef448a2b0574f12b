<?php
// What asks a server. Those that tests have no server for are asked what they do without one.
return [
    'curl' => [
        'make' => static fn () => curl_init(),
        'use' => static function (CurlHandle $made) {
            curl_setopt_array($made, [CURLOPT_URL => 'file://' . __FILE__, CURLOPT_RETURNTRANSFER => true]);
            return str_starts_with(curl_exec($made), '<?php');
        },
        'is' => true,
    ],
    'http' => [
        'with' => ['iconv', 'raphf'],
        'make' => static fn () => new http\Client(),
        'use' => static fn (http\Client $made) => (new http\Client\Request('GET', 'http://127.0.0.1/?a=1'))->getRequestUrl(),
        'is' => 'http://127.0.0.1/?a=1',
    ],
    'soap' => [
        'make' => static fn () => new SoapClient(null, ['location' => 'http://127.0.0.1:1/', 'uri' => 'urn:x', 'exceptions' => true]),
        'use' => static function (SoapClient $made) {
            try {
                $made->__soapCall('none', []);
            } catch (SoapFault $fault) {
                return $fault->faultcode;
            }
        },
        'is' => 'HTTP',
    ],
    'oauth' => [
        'make' => static fn () => new OAuth('key', 'secret'),
        'use' => static fn (OAuth $made) => str_starts_with($made->getRequestHeader('GET', 'http://127.0.0.1/'), 'OAuth '),
        'is' => true,
    ],
    'solr' => [
        'make' => static fn () => new SolrClient(['hostname' => '127.0.0.1', 'port' => 1]),
        'use' => static function (SolrClient $made) {
            try {
                $made->ping();
            } catch (SolrException $thrown) {
                return get_class($thrown);
            }
        },
        'is' => 'SolrClientException',
    ],
    'mongodb' => [
        'make' => static fn () => new MongoDB\Driver\Manager('mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100'),
        'use' => static function (MongoDB\Driver\Manager $made) {
            try {
                $made->executeCommand('admin', new MongoDB\Driver\Command(['ping' => 1]));
            } catch (MongoDB\Driver\Exception\ConnectionTimeoutException) {
                return bin2hex(MongoDB\BSON\fromPHP(['a' => 1]));
            }
        },
        'is' => '0c0000001061000100000000',
    ],
    'amqp' => [
        'make' => static fn () => new AMQPConnection(['host' => '127.0.0.1', 'port' => 1, 'connect_timeout' => 1]),
        'use' => static function (AMQPConnection $made) {
            try {
                $made->connect();
            } catch (AMQPConnectionException) {
                return $made->isConnected();
            }
        },
        'is' => false,
    ],
    'stomp' => [
        'use' => static function () {
            try {
                new Stomp('tcp://127.0.0.1:1');
            } catch (StompException $thrown) {
                return get_class($thrown);
            }
        },
        'is' => 'StompException',
    ],
    'zmq' => [
        'use' => static function () {
            $context = new ZMQContext(1, false);
            $one = $context->getSocket(ZMQ::SOCKET_PAIR);
            $other = $context->getSocket(ZMQ::SOCKET_PAIR);
            $place = 'inproc://' . bin2hex(random_bytes(4));
            $one->bind($place);
            $other->connect($place);
            $one->send('text');
            return $other->recv();
        },
        'is' => 'text',
    ],
    'ssh2' => ['use' => static fn () => @ssh2_connect('127.0.0.1', 1), 'is' => false],
    'ldap' => [
        'make' => static fn () => ldap_connect('ldap://127.0.0.1:1'),
        'use' => static fn (LDAP\Connection $made) => [@ldap_bind($made), ldap_errno($made)],
        'is' => [false, -1],
    ],
    'imap' => [
        'use' => static fn () => [imap_utf8('=?ISO-8859-1?Q?=E9?='), imap_rfc822_parse_adrlist('a@b.example', '')[0]->mailbox],
        'is' => ["e\u{301}", 'a'],
    ],
    'snmp' => [
        'make' => static fn () => new SNMP(SNMP::VERSION_2c, '127.0.0.1:1', 'public', 50000, 0),
        'use' => static fn (SNMP $made) => [@$made->get('1.3.6.1.2.1.1.1.0'), $made->getErrno() !== 0],
        'is' => [false, true],
    ],
    'ftp' => ['use' => static fn () => @ftp_connect('127.0.0.1', 1, 1), 'is' => false],
    'remctl' => ['use' => static fn () => function_exists('remctl'), 'is' => true],
];
