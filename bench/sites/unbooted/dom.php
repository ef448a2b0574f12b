<?php

$document = new DOMDocument();
$list = $document->appendChild($document->createElement('list'));
for ($number = 0; $number < 1000; $number++) {
    $list->appendChild($document->createElement('item', "item $number"));
}
$read = new DOMDocument();
$read->loadXML($document->saveXML());
echo (new DOMXPath($read))->query('//item[contains(., "99")]')->length, ' items';
