<?php

/*
 * Boots an unmodified WordPress for Tokamak's sealed mode; docs/wordpress.md says how to use it.
 *
 * `require` and not a function call: WordPress keeps its state in the global scope, where this
 * script runs.
 */

require __DIR__ . '/Source.php';
require __DIR__ . '/Image.php';

switch (Tokamak\WordPress\Image::begin()) {
    case 'core':
        break;
    case 'plugins':
    case 'loaded':
        require_once Tokamak\WordPress\Image::config();
        Tokamak\WordPress\Image::finish();
}
