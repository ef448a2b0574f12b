<?php
// What the rows of SOAP ask.
$server = new SoapServer(null, ['uri' => 'urn:works']);
$server->setObject(new class {
    public function add(int $one, int $other): int
    {
        return $one + $other;
    }
});
$server->handle();
