<?php

/* Runs in the place of wp-load.php, in an image that holds a loaded WordPress. */

if (!Tokamak\WordPress\Image::suits() || !Tokamak\WordPress\Image::resume()) {
    tokamak_decline();
}
if (Tokamak\WordPress\Image::rest() !== null) {
    require Tokamak\WordPress\Image::rest();
} else {
    _wp_cron();
}
