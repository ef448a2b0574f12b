<?php
// Named by auto_prepend_file.
$GLOBALS['prepended'] = ($GLOBALS['prepended'] ?? 0) + 1;
echo 'prepended ';
