<?php
// Rows of extensions that ask a service: `service` is its name, and the environment has its PORT,
// its FOLDER (tests/it/services/unpacked) and the PASSWORD. There is a row that connects for each
// visitor, one whose boot does, and one whose boot does so persistently. In classic mode, where
// there is no boot, each visitor connects so.
return static function (array $ways): array {
    $rows = [];
    foreach ($ways as $name => $way) {
        $row = ['module' => $name] + $way;
        $rows[$name] = ['use' => static fn () => $way['ask']($way['connect']())] + $row;
        $rows["$name, connected by the boot"] = ['make' => $way['connect'], 'use' => $way['ask']] + $row;
        if (isset($way['persist'])) {
            $rows["$name, persistent, by the boot"] = ['make' => $way['persist'], 'use' => $way['ask']] + $row;
        }
    }
    return $rows;
};
