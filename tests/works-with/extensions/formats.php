<?php
// Formats of files and messages.
return [
    'dom' => [
        'make' => static function () {
            $document = new DOMDocument();
            $document->loadXML('<a><b>1</b><b>2</b></a>');
            return $document;
        },
        'use' => static fn (DOMDocument $made) => (new DOMXPath($made))->evaluate('sum(//b)'),
        'is' => 3.0,
    ],
    'simplexml' => [
        'make' => static fn () => simplexml_load_string('<a><b c="1">x</b></a>'),
        'use' => static fn (SimpleXMLElement $made) => [(string) $made->b, (string) $made->b['c']],
        'is' => ['x', '1'],
    ],
    'xml' => [
        'use' => static function () {
            $names = [];
            $parser = xml_parser_create();
            xml_set_element_handler($parser, static function ($parser, $name) use (&$names) {
                $names[] = $name;
            }, static fn () => null);
            return [xml_parse($parser, '<a><b/></a>', true), $names];
        },
        'is' => [1, ['A', 'B']],
    ],
    'xmlreader' => [
        'with' => ['dom'],
        'use' => static function () {
            $reader = XMLReader::XML('<a><b>t</b></a>');
            while ($reader->read() && $reader->name !== 'b') {
            }
            return $reader->readString();
        },
        'is' => 't',
    ],
    'xmlwriter' => [
        'use' => static function () {
            $writer = new XMLWriter();
            $writer->openMemory();
            $writer->writeElement('a', 'x & y');
            return $writer->outputMemory();
        },
        'is' => '<a>x &amp; y</a>',
    ],
    'xsl' => [
        'with' => ['dom'],
        'make' => static function () {
            $style = new DOMDocument();
            $style->loadXML('<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">'
                . '<x:output method="text"/><x:template match="/"><x:value-of select="count(//b)"/></x:template></x:stylesheet>');
            $processor = new XSLTProcessor();
            $processor->importStylesheet($style);
            return $processor;
        },
        'use' => static function (XSLTProcessor $made) {
            $document = new DOMDocument();
            $document->loadXML('<a><b/><b/></a>');
            return $made->transformToXml($document);
        },
        'is' => '2',
    ],
    'xmlrpc' => [
        'use' => static fn () => xmlrpc_decode(xmlrpc_encode(['a' => 1])),
        'is' => ['a' => 1],
    ],
    'json' => [
        'use' => static fn () => json_decode(json_encode(['a' => [1, 2.5, 'é']]), true),
        'is' => ['a' => [1, 2.5, 'é']],
    ],
    'yaml' => [
        'use' => static fn () => yaml_parse(yaml_emit(['a' => [1, 'two']])),
        'is' => ['a' => [1, 'two']],
    ],
    'igbinary' => [
        'use' => static fn () => igbinary_unserialize(igbinary_serialize(['a' => [1, 'two']])),
        'is' => ['a' => [1, 'two']],
    ],
    'msgpack' => [
        'use' => static fn () => msgpack_unpack(msgpack_pack(['a' => [1, 'two']])),
        'is' => ['a' => [1, 'two']],
    ],
    'mailparse' => [
        'with' => ['mbstring'],
        'use' => static function () {
            $mail = mailparse_msg_create();
            mailparse_msg_parse($mail, "Subject: Hello\r\nContent-Type: text/plain\r\n\r\nText\r\n");
            return mailparse_msg_get_part_data($mail)['headers']['subject'];
        },
        'is' => 'Hello',
    ],
    'bz2' => ['use' => static fn () => bzdecompress(bzcompress('text')), 'is' => 'text'],
    'zlib' => [
        'use' => static function () {
            $deflate = deflate_init(ZLIB_ENCODING_GZIP);
            return gzdecode(deflate_add($deflate, 'text', ZLIB_FINISH));
        },
        'is' => 'text',
    ],
    'zstd' => ['only' => '8.4', 'use' => static fn () => zstd_uncompress(zstd_compress('text')), 'is' => 'text'],
    'zip' => [
        'use' => static function () {
            $file = tempnam(getenv('STATE'), 'zip');
            $zip = new ZipArchive();
            $zip->open($file, ZipArchive::OVERWRITE);
            $zip->addFromString('a.txt', 'text');
            $zip->close();
            $zip->open($file);
            return $zip->getFromName('a.txt');
        },
        'is' => 'text',
    ],
    'phar' => [
        'use' => static function () {
            $file = getenv('STATE') . '/' . bin2hex(random_bytes(6)) . '.tar';
            (new PharData($file))->addFromString('a.txt', 'text');
            return file_get_contents("phar://$file/a.txt");
        },
        'is' => 'text',
    ],
    'fileinfo' => [
        'make' => static fn () => new finfo(FILEINFO_MIME_TYPE),
        'use' => static fn (finfo $made) => $made->buffer("%PDF-1.4\n"),
        'is' => 'application/pdf',
    ],
    'exif' => [
        'use' => static fn () => exif_tagname(0x010F),
        'is' => 'Make',
    ],
    'ps' => [
        'with' => ['gd'],
        'use' => static function () {
            $document = ps_new();
            ps_open_file($document, '');
            ps_begin_page($document, 100, 100);
            ps_end_page($document);
            ps_close($document);
            return str_starts_with(ps_get_buffer($document), '%!PS');
        },
        'is' => true,
    ],
    'ast' => [
        'use' => static fn () => ast\parse_code('<?php echo 1;', 90)->children[0]->kind === ast\AST_ECHO,
        'is' => true,
    ],
    'ds' => [
        'make' => static fn () => new Ds\Map(['a' => 1]),
        'use' => static fn (Ds\Map $made) => [$made->get('a'), (new Ds\Vector([3, 1, 2]))->sorted()->toArray()],
        'is' => [1, [1, 2, 3]],
    ],
    'psr' => [
        'use' => static fn () => interface_exists(Psr\Log\LoggerInterface::class, false),
        'is' => true,
    ],
];
