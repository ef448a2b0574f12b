<?php
// Pictures.
return [
    'gd' => [
        'make' => static fn () => imagecreatetruecolor(40, 30),
        'use' => static function (GdImage $made) {
            ob_start();
            imagepng(imagescale($made, 20));
            return getimagesizefromstring(ob_get_clean())[0];
        },
        'is' => 20,
    ],
    'imagick' => [
        'use' => static function () {
            $picture = new Imagick();
            $picture->newImage(40, 30, 'red', 'png');
            $picture->resizeImage(20, 15, Imagick::FILTER_BOX, 1);
            return getimagesizefromstring($picture->getImageBlob())[0];
        },
        'is' => 20,
    ],
    'gmagick' => [
        'use' => static function () {
            $picture = new Gmagick();
            $picture->newImage(40, 30, 'red', 'png');
            $picture->resizeImage(20, 15, Gmagick::FILTER_BOX, 1);
            return getimagesizefromstring($picture->getImageBlob())[0];
        },
        'is' => 20,
    ],
    'rrd' => [
        'use' => static function () {
            $file = getenv('STATE') . '/' . bin2hex(random_bytes(6)) . '.rrd';
            rrd_create($file, ['--start', '1700000000', '--step', '60', 'DS:a:GAUGE:120:U:U', 'RRA:AVERAGE:0.5:1:10']);
            rrd_update($file, ['1700000060:5']);
            return rrd_last($file);
        },
        'is' => 1700000060,
    ],
];
