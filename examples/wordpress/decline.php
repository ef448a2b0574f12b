<?php

/*
 * Runs in the place of a script that is better off without the image: the workers of the site's
 * fallback run it.
 */

tokamak_decline();
