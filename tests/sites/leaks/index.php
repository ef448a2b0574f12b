<?php
// Leaves nothing.
echo "ok\n";
