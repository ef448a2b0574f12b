<?php
// What asks a server. Those that tests have no server for are asked what they do without one.
$alone = [
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
                // The extension has the one function or the other.
                $encode = function_exists('MongoDB\BSON\fromPHP') ? 'MongoDB\BSON\fromPHP' : 'MongoDB\BSON\Document::fromPHP';
                return bin2hex((string) $encode(['a' => 1]));
            }
        },
        'is' => '0c0000001061000100000000',
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
    'smbclient' => [
        'only' => '8.4',
        'use' => static function () {
            $state = smbclient_state_new();
            smbclient_state_init($state);
            return @smbclient_opendir($state, 'smb://127.0.0.1:1/none');
        },
        'is' => false,
    ],
    'ftp' => ['use' => static fn () => @ftp_connect('127.0.0.1', 1, 1), 'is' => false],
    'remctl' => ['use' => static fn () => function_exists('remctl'), 'is' => true],
];
return $alone + (require __DIR__ . '/../connections.php')([
    'soap' => [
        'service' => 'soap',
        'connect' => static function () {
            $soap = new SoapClient(null, ['location' => 'http://127.0.0.1:' . getenv('PORT') . '/soap.php', 'uri' => 'urn:works']);
            $soap->add(1, 2);
            return $soap;
        },
        'ask' => static function (SoapClient $soap) {
            try {
                return [$soap->add(3, 4), $soap->none()];
            } catch (SoapFault $fault) {
                return [$soap->add(3, 4), $fault->faultcode];
            }
        },
        'is' => [7, 'SOAP-ENV:Server'],
    ],
    'amqp' => [
        'service' => 'amqp',
        'connect' => static function () {
            $amqp = new AMQPConnection(['host' => '127.0.0.1', 'port' => getenv('PORT'), 'login' => 'reactor', 'password' => getenv('PASSWORD')]);
            $amqp->connect();
            return $amqp;
        },
        'persist' => static function () {
            $amqp = new AMQPConnection(['host' => '127.0.0.1', 'port' => getenv('PORT'), 'login' => 'reactor', 'password' => getenv('PASSWORD')]);
            $amqp->pconnect();
            return $amqp;
        },
        'ask' => static function (AMQPConnection $amqp) {
            $channel = new AMQPChannel($amqp);
            $queue = new AMQPQueue($channel);
            $queue->setFlags(AMQP_EXCLUSIVE);
            $queue->declareQueue();
            (new AMQPExchange($channel))->publish('text', $queue->getName());
            $text = $queue->get(AMQP_AUTOACK)->getBody();
            return [$text, $queue->delete()];
        },
        'is' => ['text', 0],
    ],
    'stomp' => [
        'service' => 'stomp',
        'connect' => static fn () => new Stomp('tcp://127.0.0.1:' . getenv('PORT'), 'reactor', getenv('PASSWORD')),
        'ask' => static function (Stomp $stomp) {
            $place = '/queue/' . bin2hex(random_bytes(8));
            $stomp->subscribe($place, ['ack' => 'auto', 'auto-delete' => 'true']);
            $stomp->send($place, 'text');
            $text = $stomp->readFrame()->body;
            return [$text, $stomp->unsubscribe($place)];
        },
        'is' => ['text', true],
    ],
    'ssh2' => [
        'service' => 'ssh',
        'connect' => static function () {
            $ssh = ssh2_connect('127.0.0.1', (int) getenv('PORT'));
            $folder = getenv('FOLDER');
            // Without the passphrase, the extension reads a variable that it has not set.
            ssh2_auth_pubkey_file($ssh, file_get_contents("$folder/name"), "$folder/key.pub", "$folder/key", '');
            return $ssh;
        },
        'ask' => static function ($ssh) {
            $sftp = ssh2_sftp($ssh);
            return file_get_contents('ssh2.sftp://' . (int) $sftp . getenv('FOLDER') . '/text');
        },
        'is' => 'text',
    ],
    'ldap' => [
        'service' => 'ldap',
        'connect' => static function () {
            $ldap = ldap_connect('ldap://127.0.0.1:' . getenv('PORT'));
            ldap_set_option($ldap, LDAP_OPT_PROTOCOL_VERSION, 3);
            ldap_bind($ldap, 'cn=reactor,dc=works', getenv('PASSWORD'));
            return $ldap;
        },
        // Finds somebody, and looks whether a password is theirs, as a log-in page does.
        'ask' => static function (LDAP\Connection $ldap) {
            $found = ldap_get_entries($ldap, ldap_search($ldap, 'dc=works', '(cn=one)', ['sn']))[0];
            $check = ldap_connect('ldap://127.0.0.1:' . getenv('PORT'));
            ldap_set_option($check, LDAP_OPT_PROTOCOL_VERSION, 3);
            return [$found['sn'][0], @ldap_bind($check, $found['dn'], 'not its own'), ldap_errno($check), ldap_bind($check, $found['dn'], 'its own')];
        },
        'is' => ['first', false, 49, true],
    ],
    'imap' => [
        'only' => '8.2',
        'service' => 'imap',
        'connect' => static fn () => imap_open('{127.0.0.1:' . getenv('PORT') . '/imap/notls}INBOX', 'reactor@works', getenv('PASSWORD')),
        'ask' => static fn (IMAP\Connection $imap) => [imap_ping($imap), imap_num_msg($imap), imap_headerinfo($imap, 1)->subject, imap_utf8('=?ISO-8859-1?Q?=E9?=')],
        'is' => [true, 1, 'works', "e\u{301}"],
    ],
    'snmp' => [
        'service' => 'snmp',
        'connect' => static fn () => new SNMP(SNMP::VERSION_2c, '127.0.0.1:' . getenv('PORT'), 'works', timeout: 3_000_000),
        'ask' => static fn (SNMP $snmp) => [$snmp->get('1.3.6.1.4.1.8072.9999.1.' . random_int(1, 1_000_000_000)), $snmp->getErrno()],
        'is' => ['STRING: "here"', 0],
    ],
]);
